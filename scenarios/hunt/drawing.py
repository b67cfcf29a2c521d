"""Cases drawn at random: small, and each without some features, so that what is left is not hidden by the rest.

What clients do is what the kind's rehearsal lets them do, thinned: a few interests with all that is done to them, a
few publications. Then a case comes to rest: faults are over, and what is published next must arrive where the protocol
promises to recover; all leave; what is published then reaches nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ValidationError

from brokers import names
from brokers.contract import BrokerProtocol
from brokers.errors import BrokerlabError, InvalidInput
from brokers.kinds import all_that
from brokers.promises import Faced
from brokers.registry import did_you_mean
from protocols.joining import overlay_of
from protocols.rehearsing import REHEARSALS, Dice, Rehearsal, service_of
from scenarios.hunt.case import Act, Case, Edge
from scenarios.hunt.features import (
    draw_latent,
    draw_moves,
    draw_params,
    draw_queues,
    draw_session,
    needed_latent,
)
from scenarios.hunt.networks import Fits, draw_network, fits_of, on_trees
from scenarios.hunt.options import draw_options, made_options, options_model
from scenarios.hunt.pressure import under_pressure
from scenarios.problems import explain

MS = 1_000_000
_SCALE = 1 << 30
_LENGTHS_MS = (40, 300, 300, 1_500, 6_000)
_HURRIES_MS = (1, 5, 20)  # as long as a message takes over a link or a few
_LOWERED = (0, 2, 8)
_BUSY = 25  # one case in so many has many publications, and is long
REST_NS = 1_500 * MS  # longer than what is on its way takes, on links as they are drawn
_PROBES = 1 << 22  # numbers that no rehearsal gives
_FAULTS = ("crash", "cut", "pause", "degrade", "partition", "isolate", "slow")


@dataclass(frozen=True)
class Prey:
    """What is hunted: a protocol with its kind, and what was said of its service."""

    protocol: str  # target or name
    kind: str
    options: Mapping[str, Any]
    faults: bool
    trees_only: bool = False

    @classmethod
    def of(
        cls, protocol: str | type, kind: str | type | None = None, options: Mapping[str, Any] | None = None,
        faults: bool = True, trees_only: bool = False,
    ) -> Prey:  # fmt: skip
        """Of a name, a target or a class; InvalidInput if that is none."""
        spec = service_of(protocol, kind=kind)
        named = protocol if isinstance(protocol, str) else spec.protocol_target
        found = spec.kind_class
        if not found.manifest.rehearsal:
            raise InvalidInput(
                f"the kind {found.name!r} has no rehearsal; name a function as `rehearsal` in its manifest"
            )
        _checked(spec.protocol_class, options or {})
        known = names.table("kinds")
        kind_name = found.name if found.name in known else spec.kind_target
        return cls(named, kind_name, dict(options or {}), faults, trees_only)

    @cached_property
    def protocol_class(self) -> Any:
        return names.find("protocols", self.protocol, trust=True).object

    @cached_property
    def fits(self) -> Fits | None:
        """Where it is exact, if that depends on the overlay."""
        params = self.kind_class.Params(**all_that(self.protocol_class, self.kind_class)).model_dump(mode="json")
        found = fits_of(self.protocol_class, made_options(self.protocol_class, self.options), params)
        return on_trees(found) if self.trees_only else found

    @cached_property
    def lets_go(self) -> bool:
        """Whether it forgets neighbours that are out of reach, and so those that never come back."""
        overlay, faced = overlay_of([(0, 1)]), Faced(any=True, detect_ns=1, over_ns=1, way_ns=1, link_ns=1)
        found = self.protocol_class.recovery(made_options(self.protocol_class, self.options), overlay, faced)
        return found is not None and bool(found.lets_go)

    @cached_property
    def kind_class(self) -> Any:
        return names.find("kinds", self.kind, trust=True).object


def _checked(protocol: Any, options: Mapping[str, Any]) -> None:
    """InvalidInput where these are no options of the protocol."""
    model = options_model(protocol)
    if model is None:
        if options:
            raise InvalidInput(f"{protocol.__name__} has no options (got {', '.join(options)})")
        return
    for name in options:
        if name not in model.model_fields:
            raise InvalidInput(
                f"{protocol.__name__} has no option {name!r}; {did_you_mean(name, model.model_fields)}"
            )
    try:
        model(**options)
    except ValidationError as error:
        told = "; ".join(message for _, _, message in explain(error, options, model))
        raise InvalidInput(f"{protocol.__name__}: {', '.join(options)}: {told}") from None


def draw(prey: Prey, seed: int, number: int) -> Case:
    """The case of this number. What the program refuses to run is drawn again, with less in it."""
    for attempt in range(8):
        dice = Dice(seed, number * 8 + attempt, "hunt")
        case = _drawn(prey, dice, Dice(seed, number * 8 + attempt, "hunt/more"), plain=attempt > 4)
        if runs(case):
            return case
    dice = Dice(seed, number * 8, "hunt")
    case = _drawn(replace(prey, faults=False), dice, dice, plain=True)
    case.model  # noqa: B018 - InvalidInput that says what the program has against it
    return case


def runs(case: Case) -> bool:
    """Whether clients may do this, and the program takes it: not all that can be drawn goes together."""
    try:
        return orderly(case) and case.model is not None and _forgets_if_asked(case.model)
    except InvalidInput:
        return False


def _forgets_if_asked(model: Any) -> bool:
    """Whether brokers may lose what they know, if they do: the engine refuses what cannot."""
    protocol = model.services[0].protocol_class
    if not model.faults.forgetful or issubclass(protocol, BrokerProtocol):
        return True
    return bool(protocol.forgets or protocol.plain)


def orderly(case: Case) -> bool:
    """Whether clients end only what they began, and begin once what cannot be replaced."""
    kind = names.find("kinds", case.kind, trust=True).object
    begun: set[Any] = set()
    ended: set[Any] = set()
    for act in sorted(case.acts, key=lambda act: act.at):
        type_, about = kind.types[act.op], act.about
        if act.word is not None and act.body is not None:
            named = kind(dict(case.params)).word_of(
                type_, np.array([np.nan if each is None else each for each in act.body])
            )
            if named is not None and named != act.word:
                return False
        if type_ in kind.revocations:
            if about not in begun or about in ended:
                return False
            ended.add(about)
        elif type_ in kind.interests:
            if about in ended or (about in begun and type_ not in kind.replacements):
                return False
            begun.add(about)
    return True


def one_of(dice: Dice, things: Sequence[Any]) -> Any:
    return things[dice.below(len(things))]


def share(dice: Dice) -> float:
    return dice.below(_SCALE) / _SCALE


def _drawn(prey: Prey, dice: Dice, more: Dice, plain: bool) -> Case:
    """A case; `more` draws what came later, so that the rest is drawn as it was."""
    seed = 1 + dice.below(_SCALE)
    brokers, edges = draw_network(prey.fits, prey.faults, plain, dice)
    length = one_of(dice, _LENGTHS_MS[:3] if prey.kind_class.server else _LENGTHS_MS) * MS
    busy = not plain and not prey.kind_class.server and dice.below(_BUSY) == 0  # what pays by and by only, has to pay
    if busy:
        length = one_of(dice, _LENGTHS_MS[3:]) * MS
    grid = one_of(dice, (1, 1, 1, 2 * MS, 10 * MS))
    settled = not plain and dice.below(6) == 0
    asked = all_that(prey.protocol_class, prey.kind_class)
    said = asked if plain else draw_params(prey.kind_class, asked, dice)
    params = prey.kind_class.Params(**said).model_dump(mode="json")
    clients = tuple(dice.below(brokers) for _ in range(2 + dice.below(5)))
    nodes = brokers + int(bool(prey.kind_class.server))
    publications = 150 if busy else 5 + dice.below(45)
    rehearsal = replace(
        REHEARSALS[0], grid_ns=grid, duration_ns=length, publications=publications, settled=settled
    )
    script = _script(prey, rehearsal, nodes, len(clients), params, seed)
    acts = _alike(prey, _thinned(prey, script, dice, busy), dice)
    acts = acts if plain else _hurried(acts, more)
    faults, detect = _faults(prey, edges, brokers, length, dice) if prey.faults and not plain else ((), None)
    options = (
        dict(prey.options)
        if plain or (dice.below(2) and not busy)
        else draw_options(prey.protocol_class, prey.options, dice)
    )
    made = made_options(prey.protocol_class, options)
    costly = not plain and dice.below(5) == 0
    case = Case(
        protocol=prey.protocol, kind=prey.kind, brokers=brokers, edges=edges, clients=clients, acts=tuple(acts),
        duration_ns=length, seed=seed, params=said, options=options, faults=faults,
        detect_ns=detect, cost={"base": 2e6, "per_match": 5e4} if costly else {}, settled=settled,
        view=one_of(dice, ("auto", "auto", "message", "run")), tables=one_of(dice, ("auto", "auto", "own")),
        latent=needed_latent(prey.protocol_class, made), thresholds=None if plain else _thresholds(more),
    )  # fmt: skip
    if not plain:
        moves = draw_moves(len(clients), brokers, length, dice)
        case = case.but(
            moves=moves, session=draw_session(prey.protocol_class, dice) if moves else {},
            queues=draw_queues(brokers, edges, costly, dice), latent=draw_latent(prey.protocol_class, made, dice),
        )  # fmt: skip
        if prey.protocol_class.drops_told_ns and dice.below(2):
            case = under_pressure(case, script, prey.kind_class, prey.protocol_class, dice)
    return at_rest(prey, case, script, dice)


# ---- what clients do ---------------------------------------------------------------------------------


def _script(
    prey: Prey, rehearsal: Rehearsal, nodes: int, clients: int, params: Mapping[str, Any], seed: int
) -> list[Act]:
    """All that clients would do in a rehearsal, in the order of time."""
    write = names.load_as("rehearsals", prey.kind_class.manifest.rehearsal)
    said = write(rehearsal, nodes, clients, params, seed)
    op_of = {type_: op for op, type_ in prey.kind_class.types.items()}
    acts = []
    standing = said.get("standing", ()) if rehearsal.settled else ()
    for part in [*standing, *said["emissions"]]:
        size = len(part["client"])
        rows, objects = part.get("rows"), part.get("objects")
        for i in range(size):
            client, word = int(part["client"][i]), int(part.get("word", [0] * size)[i])
            mine = word >> 32 == nodes + client
            acts.append(
                Act(
                    int(part["time"][i]), client, op_of[part["type"]],
                    word & 0xFFFFFFFF if mine else None, word if word and not mine else None,
                    None if rows is None else _body(rows[i]), None if objects is None else objects[i],
                )
            )  # fmt: skip
    return sorted(acts, key=lambda act: act.at)


def _body(row: Any) -> tuple[float | None, ...]:
    return tuple(None if value != value else float(value) for value in np.asarray(row, np.float64).tolist())


def _thinned(prey: Prey, script: Sequence[Act], dice: Dice, busy: bool) -> list[Act]:
    """A few of the things that are begun, changed or ended, with all that is done to them, and a few publications."""
    kind = prey.kind_class
    published = {act.about for act in script if kind.types[act.op] in kind.publications}
    about = sorted({act.about for act in script if act.about is not None} - published, key=str)
    most = one_of(dice, (1, 2, 3, 5, 8, 30))
    chosen: set[Any] = set()
    for _ in range(min(most, len(about))):
        chosen.add(about[dice.below(len(about))])
    offers = sorted({act.about for act in script if kind.types[act.op] in kind.offers}, key=str)
    if offers and dice.below(4):  # without, next to nothing is owed to anybody
        chosen.update(each for each in offers if dice.below(2))
    free: list[Any] = [act for act in script if act.about is None]
    free += sorted(published - {None}, key=str)  # publications that stay, until they are ended
    few = len(free) if busy else one_of(dice, (2, 5, 12, 40))
    kept = [free[dice.below(len(free))] for _ in range(few)] if free else []
    chosen.update(each for each in kept if not isinstance(each, Act))
    taken = {id(each) for each in kept}
    together = [act for act in script if (act.about in chosen if act.about is not None else id(act) in taken)]
    return _bunched(together, dice)


def _alike(prey: Prey, acts: list[Act], dice: Dice) -> list[Act]:
    """Sometimes many ask for the same: one or two bodies for all that is asked in one way."""
    if dice.below(3):
        return acts
    free = [act for act in acts if prey.kind_class.types[act.op] in prey.kind_class.interests and act.word is None]
    few: dict[str, list[Act]] = {}
    for act in free:
        same = few.setdefault(act.op, [])
        if len(same) < 2 and dice.below(2):
            same.append(act)
    model: dict[int, Act] = {id(act): one_of(dice, few[act.op]) for act in free if few[act.op]}
    return [
        act._replace(body=model[id(act)].body, data=model[id(act)].data) if id(act) in model else act for act in acts
    ]


def _bunched(acts: list[Act], dice: Dice) -> list[Act]:
    """Sometimes all at a few instants: what is begun stays before what ends it."""
    if dice.below(5) or not acts:
        return acts
    end = max(act.at for act in acts)
    step = max(1, end // one_of(dice, (2, 3, 6)))
    return [act._replace(at=act.at if act.at == 0 else max(1, act.at - act.at % step)) for act in acts]


def _hurried(acts: list[Act], dice: Dice) -> list[Act]:
    """Sometimes everything happens while what was first is still under way."""
    if dice.below(6) or not acts:
        return acts
    end, all_in = max(act.at for act in acts), one_of(dice, _HURRIES_MS) * MS
    if end <= all_in:
        return acts
    return [act._replace(at=1 + act.at * all_in // end if act.at > 0 else act.at) for act in acts]


def _thresholds(dice: Dice) -> int | None:
    """Sometimes tables tidy themselves, and grow, from the first."""
    return None if dice.below(6) else int(one_of(dice, _LOWERED))


# ---- coming to rest ----------------------------------------------------------------------------------


def at_rest(prey: Prey, case: Case, script: Sequence[Act], dice: Dice) -> Case:
    """The case with what follows once all that was drawn is over: probes, all leave, probes again."""
    kept = int(case.session.get("keep", 0))
    over = max([case.duration_ns, *(_ends(each) for each in case.faults), *(move.at + kept for move in case.moves)])
    rest = REST_NS + _recovery_ns(prey, case)
    publications = {
        op for op, type_ in prey.kind_class.types.items() if type_ in prey.kind_class.publications
    }
    free = [act for act in script if act.op in publications]
    acts = [*case.acts]
    probe = over + (rest // 10 if prey.kind_class.server else rest)
    for i in range(min(4, len(free))):
        acts.append(_anew(one_of(dice, free), i, probe + 1 + i * MS))
    leave = probe + (
        rest // 10 if prey.kind_class.server else rest
    )  # a server may have much to say all along
    going = _departures(prey, acts, script, leave, dice)
    if going:
        acts += going
        if free:
            acts.append(_anew(one_of(dice, free), 5, leave + rest))
            acts += _departures(prey, acts, script, leave + rest + REST_NS // 2, dice)  # of what stays if published
    end = max([act.at for act in acts], default=leave) + rest
    return case.but(acts=tuple(acts), duration_ns=end)


def _anew(act: Act, number: int, at: int) -> Act:
    """The same publication once more, as another one."""
    return act._replace(at=at, number=None if act.number is None else _PROBES + number)


def _ends(fault: Mapping[str, Any]) -> int:
    return int(fault["at"]) + int(fault.get("lasts", 0))


def _recovery_ns(prey: Prey, case: Case) -> int:
    """What a protocol takes to recover, of what it promises, within reason."""
    if not case.faults:
        return 0
    from brokers.promises import Faced, promised

    try:
        model = case.model
        spec = model.services[0]
        found = promised(
            spec.protocol_class, spec.options, model.overlay, Faced.of(model.faults, model.overlay)
        )
    except BrokerlabError:
        return 0
    return min(int(found.recovers_ns), 20_000 * MS) if found.under_faults == "recovers" else 0


def _departures(prey: Prey, acts: Sequence[Act], script: Sequence[Act], at: int, dice: Dice) -> list[Act]:
    """The end of everything that still stands, as the kind ends it; nothing where it has no end."""
    kind = prey.kind_class
    ends = {op for op, type_ in kind.types.items() if type_ in kind.revocations}
    ended_by: dict[str, str] = {}  # op that begins -> op that ends
    begun: dict[Any, str] = {}
    for act in script:
        if act.op not in ends:
            begun.setdefault(act.about, act.op)
        elif act.about in begun:
            ended_by[begun[act.about]] = act.op
    if not ended_by and len(ends) == 1:
        (only,) = ends
        ended_by = {op: only for op, type_ in kind.types.items() if type_ in kind.interests}
    stands: dict[Any, str] = {}
    for act in sorted(acts, key=lambda act: act.at):
        if act.op in ends:
            stands.pop(act.about, None)
        elif act.about is not None and kind.types[act.op] in kind.interests:
            stands[act.about] = begun.get(act.about, act.op)
    together = dice.below(2)
    found = []
    for i, (about, op) in enumerate(stands.items()):
        if op in ended_by:
            client, number, word = about
            found.append(Act(at + (0 if together else i * 3 * MS), client, ended_by[op], number, word))
    return found


# ---- faults ------------------------------------------------------------------------------------------


def _faults(
    prey: Prey, edges: Sequence[Edge], brokers: int, length: int, dice: Dice
) -> tuple[tuple[dict[str, Any], ...], int | None]:
    """A few faults that are over in time, or none; and after what time brokers are told."""
    if dice.below(2):
        return (), None
    found = tuple(_fault(edges, brokers, length, dice) for _ in range(1 + dice.below(3)))
    detect = one_of(dice, (None, 1, 2 * MS, 20 * MS))
    if detect is not None and prey.lets_go and dice.below(3) == 0:  # some never come back
        found = tuple(
            {key: value for key, value in each.items() if key != "lasts"} if each["fault"] == "crash" else each
            for each in found
        )
    return found, detect


def _fault(edges: Sequence[Edge], brokers: int, length: int, dice: Dice) -> dict[str, Any]:
    name = one_of(dice, _FAULTS)
    entry: dict[str, Any] = {
        "fault": name,
        "at": dice.below(length),
        "lasts": 1 + dice.below(length // one_of(dice, (2, 8, 40))),
    }
    some = [dice.below(brokers)]
    edge = one_of(dice, edges)
    ends = [edge.a, edge.b] if dice.below(2) else [edge.b, edge.a]
    if name == "crash":
        return {**entry, "brokers": some, "state": one_of(dice, ("kept", "lost", "lost", "stored"))}
    if name in ("pause", "isolate", "slow"):
        return {**entry, "brokers": some}
    if name == "partition":
        return {**entry, "sets": [some]}
    if name == "cut":
        return {**entry, "link": ends}
    worse: dict[str, Any] = {"delay": 1 + dice.below(20 * MS)}
    if dice.below(3) == 0:
        worse["loss"] = 0.5
    if dice.below(4) == 0:
        worse["twice"] = 0.5
    return {**entry, "link": ends, "way": one_of(dice, ("both", "there")), **worse}
