"""What can go wrong, by whose fault. A command turns the class into its exit code."""

from __future__ import annotations


class BrokerlabError(Exception):
    """Base of every error that is meant for a person: one or more clear sentences, no traceback."""

    exit_code = 1


class InvalidInput(BrokerlabError):
    """A scenario, an argument, or data handed to an index is wrong."""

    exit_code = 3


class EnvironmentProblem(BrokerlabError):
    """Something around the program is missing: an extra, Java, Ray, space on the disk."""

    exit_code = 4


class RunIncomplete(BrokerlabError):
    """A run folder that no run has finished, or one that a run is writing now."""

    exit_code = 2


class RunDamaged(RunIncomplete):
    """A run folder that is not what a run left: a file changed, is missing, or says what cannot be."""

    @classmethod
    def at(cls, folder: object, what: str) -> RunDamaged:
        """The folder, what is wrong in it, and what to do."""
        return cls(f"{folder}: damaged: {what}; take it from a copy, or run it again")


class ProtocolFault(BrokerlabError):
    """A protocol broke the contract: a delay of zero, a link that is not its broker's, a late message."""


class NeverQuiet(BrokerlabError):
    """More was handled than overlay and workload can have caused: a finding about a protocol, whose run ends there."""

    verdict = "invalid"


class ActorsLost(BrokerlabError):
    """An actor or its node died; the run can go on from its last checkpoint."""

    exit_code = 4


class WireError(BrokerlabError):
    """Bytes that are no frame of this version."""


class Interrupted(BrokerlabError):
    """Stopped by the user."""

    exit_code = 130


class EndlessWalk(RuntimeError):
    """A kernel went round in a structure that it is sure has an end: a mistake in this program.

    Loops of kernels that follow links have a bound, since what hangs in compiled code can hardly be stopped.
    """
