"""A program beside this process: started, asked one frame at a time, and ended with all that it started itself.

A frame is a line of JSON, or, where the program asks for it, msgpack behind its length in four bytes. To each there is
one answer. Nothing that a program does holds us up for longer than it is given: what it reads and writes goes through
pipes that never block, with a bound on what is taken in.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokers.interrupting import undisturbed

HEAD = 4  # bytes of the length before msgpack
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_TAIL_BYTES = 2000  # of standard error
_TAIL_LINES = 10
_LEAVE_S = 0.5  # to end by itself, once nothing will come any more
_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


class Trouble(Exception):
    """What a program did that it must not, as the end of a sentence that begins with its name."""


def readable(text: str) -> str:
    """What a program said as one line for people, without what would steer their terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


class Process:
    """A running program."""

    def __init__(self, command: Sequence[str], folder: str | None = None) -> None:
        """Start it, in a session of its own: Ctrl-C is for us, and we end it. Trouble if it cannot be started."""
        program = command[0]
        if "/" in program:
            program = str(Path(folder or ".").resolve() / program)
        self._process = _started([program, *command[1:]], folder)
        self._end = weakref.finalize(self, _ended, self._process)  # also when Python ends
        self._in, self._out, self._err = (_unblocked(pipe) for pipe in _pipes_of(self._process))
        self._said = bytearray()
        self._looked = 0  # up to where no end of a line was found in it
        self._tail = b""
        self._listening = select.poll()
        for pipe in (self._out, self._err):
            self._listening.register(pipe, select.POLLIN)
        self.prefixed = False  # whether frames are msgpack with their lengths

    def ask(self, frame: bytes, within_s: float, bytes_max: int) -> bytes:
        """The answer to a frame, without what marks its end. Trouble if there is none."""
        if self.prefixed:
            frame = len(frame).to_bytes(HEAD, "big") + frame
        self._take(0)
        if self._said:
            raise Trouble(f"said what it was not asked for: {self._begun()}")
        rest, until = memoryview(frame), time.monotonic() + within_s
        while rest:
            rest = rest[self._put(rest, until - time.monotonic()) :]
            if self._said:
                raise Trouble(f"answered before it had read what it was asked: {self._begun()}")
            if rest and time.monotonic() > until:
                raise Trouble(f"did not read what it was asked within {within_s:g} s (option `answer_within`)")
        while (answer := self._answer(bytes_max)) is None:
            left = until - time.monotonic()
            if left <= 0:
                raise Trouble(f"gave no answer within {within_s:g} s (option `answer_within`)")
            self._take(left)
        return answer

    def last_words(self) -> str:
        """The end of what it wrote to standard error, as lines to add to a message; empty if it wrote nothing."""
        with contextlib.suppress(Trouble):
            self._take(0)
        text = self._tail.decode("utf-8", "replace").strip()
        lines = [readable(line) for line in text.splitlines()[-_TAIL_LINES:]]
        return "\n".join(["; its standard error ends with", *(f"  {line}" for line in lines)]) if lines else ""

    def end(self) -> None:
        """End it, whatever it is doing. Nothing the second time."""
        self._end()

    # ---- pipes ---------------------------------------------------------------------------------------

    def _put(self, rest: memoryview, within_s: float) -> int:
        """Give it what it takes; how much that was."""
        try:
            return os.write(self._in, rest)
        except BlockingIOError:
            self._listening.register(self._in, select.POLLOUT)
            try:
                self._take(max(within_s, 0.0))
            finally:
                self._listening.unregister(self._in)
            return 0
        except BrokenPipeError:
            raise Trouble(self._how_it_ended()) from None

    def _take(self, within_s: float) -> None:
        """Take in what it has said, if need be after some waiting."""
        for pipe, _ in self._listening.poll(within_s * 1000):
            if pipe == self._err:
                self._take_error()
            elif pipe == self._out:
                try:
                    data = os.read(pipe, _READ_BYTES)
                except BlockingIOError:
                    continue
                if not data:
                    raise Trouble(self._how_it_ended())
                self._said += data

    def _take_error(self) -> None:
        try:
            data = os.read(self._err, _READ_BYTES)
        except BlockingIOError:
            return
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if not data:
            with contextlib.suppress(KeyError):
                self._listening.unregister(self._err)

    def _answer(self, bytes_max: int) -> bytes | None:
        """The answer, once all of it is there."""
        if self.prefixed:
            length = int.from_bytes(self._said[:HEAD], "big") if len(self._said) >= HEAD else None
            start, end = HEAD, len(self._said) if length is None else HEAD + length
            known = length is not None and len(self._said) >= end
            stop = end
        else:
            end = self._said.find(b"\n", self._looked)
            self._looked, known = len(self._said), end >= 0
            start, end = 0, end if known else len(self._said)
            stop = end + 1
        if end - start > bytes_max:
            raise Trouble(f"answered with more than {bytes_max:,} bytes (option `answer_max`): {self._begun()}")
        if not known:
            return None
        if len(self._said) > stop:
            del self._said[:stop]
            raise Trouble(f"answered more than once: {self._begun()}")
        answer = bytes(self._said[start:end])
        self._said.clear()
        self._looked = 0
        return answer

    def _begun(self) -> str:
        return f"{bytes(self._said[:100]).decode('utf-8', 'replace')!r}"

    def _how_it_ended(self) -> str:
        left = _left(self._process, _LEAVE_S)
        self._take_error()  # what it had still to say
        if left is None:
            return "closed its standard input or output, and goes on"
        return f"was ended by {signal.Signals(-left).name}" if left < 0 else f"ended by itself, with exit code {left}"


def _started(command: list[str], folder: str | None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, start_new_session=True,
            preexec_fn=_end_with_us if _LIBC is not None else None,
        )  # fmt: skip
    except FileNotFoundError:
        if folder is not None and not Path(folder).is_dir():
            raise Trouble(f"cannot be started: there is no folder {folder}") from None
        if Path(command[0]).is_file():
            raise Trouble("cannot be started: there is no interpreter as its first line names it") from None
        where = "there is no such file" if "/" in command[0] else "it is not on the PATH (a file here is ./NAME)"
        raise Trouble(f"cannot be started: {where}") from None
    except PermissionError:
        what = "it is a folder" if Path(command[0]).is_dir() else "it may not be executed (chmod +x)"
        raise Trouble(f"cannot be started: {what}") from None
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise Trouble(f"cannot be started: {told.lower()}; a script begins with #! and its interpreter") from None


def _end_with_us() -> None:
    """In the new process: if this one is killed, so is that."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _pipes_of(process: subprocess.Popen[bytes]) -> tuple[Any, Any, Any]:
    return process.stdin, process.stdout, process.stderr


def _unblocked(pipe: Any) -> int:
    number: int = pipe.fileno()
    os.set_blocking(number, False)
    with contextlib.suppress(OSError, AttributeError):  # fewer turns with a larger pipe, where that is allowed
        fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return number


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started: kindly, by the end of its input, and soon by force."""
    with undisturbed():
        for pipe in _pipes_of(process):
            pipe.close()
        _left(process, _LEAVE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _left(process: subprocess.Popen[bytes], within_s: float) -> int | None:
    """A program's exit code, or minus the signal that ended it; None if it goes on."""
    until = time.monotonic() + within_s
    while (code := _exit_code(process)) is None and time.monotonic() < until:
        time.sleep(0.002)
    return code


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The same now. Where it can be, the number of what has ended stays its own, so that its group is no other's."""
    if not hasattr(os, "waitid"):
        return process.poll()
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
