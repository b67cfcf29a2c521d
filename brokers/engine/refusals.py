"""Why an answer of a protocol cannot be put under way, in words."""

from __future__ import annotations

from brokers.contract import NEVER
from brokers.engine import carrying, settle
from brokers.engine import layout as L
from brokers.engine.batching import Workbench
from brokers.engine.collect import Deliveries, Sends, Timers, wrong_event, wrong_type
from brokers.engine.links import Links
from brokers.engine.model import Model
from brokers.engine.queues import Queues
from brokers.engine.services import Services
from brokers.errors import NeverQuiet, ProtocolFault
from brokers.programs.spelling import shown


class Refusals:
    """Raises what the kernels of a shard found wrong."""

    def __init__(self, services: Services, links: Links, queues: Queues, bench: Workbench) -> None:
        self._services = services
        self._links = links
        self._queues = queues
        self._bench = bench

    def unsettled(self, code: int, at: int, sends: Sends, timers: Timers) -> ProtocolFault:
        """Why a batch could not be settled."""
        if code == settle.LATE_MESSAGE:
            return self._late(int(sends.link[at]))
        if code == settle.WRONG_LINK:
            return self._wrong_link(int(sends.link[at]), int(sends.event[at]))
        if code == settle.TIMER_TOO_SOON:
            return self._too_soon(int(timers.event[at]), int(timers.table[L.T_DELAY, at]))
        return self._bad_cost(at)

    def unsound(
        self, code: int, at: int, size: int, sends: Sends, timers: Timers, deliveries: Deliveries
    ) -> ProtocolFault:
        """Why answers to a batch of `size` could not be carried out."""
        if code == carrying.NO_LINK:
            return self.no_link(int(sends.link[at]))
        if code == carrying.NO_CLIENT:
            return self.no_client(int(deliveries.event[at]), int(deliveries.client[at]))
        if code == carrying.BAD_TYPE:
            return wrong_type(int(sends.detail[L.S_TYPE, at]))
        if code == carrying.BAD_TIMER_TYPE:
            return wrong_type(int(timers.table[L.T_TYPE, at]))
        named = {
            carrying.NO_EVENT: sends.event, carrying.NO_TIMED_EVENT: timers.event,
            carrying.NO_DELIVERED_EVENT: deliveries.event,
        }  # fmt: skip
        if code in named:
            return wrong_event(int(named[code][at]), size)
        return self.unsettled(code, at, sends, timers)

    def _late(self, link: int) -> ProtocolFault:
        return ProtocolFault(
            f"lookahead violated: a message over {self._links.name(link)} would land behind what its target has "
            f"handled ({self._queues.frontier[self._links.ends(link)[1]]} ns)"
        )

    def late_arrival(self, link: int, time: int) -> ProtocolFault:
        """A message from another shard that its target should have handled already."""
        return ProtocolFault(
            f"lookahead violated: a message over {self._links.name(link)} for {time} ns "
            "came when its target had handled everything up to "
            f"{int(self._queues.frontier[self._links.ends(link)[1]])} ns"
        )

    def _wrong_link(self, link: int, event: int) -> ProtocolFault:
        broker = int(self._bench.narrow[L.N_BROKER, event])
        return ProtocolFault(
            f"broker {self._links.names[broker]} ({broker}) sent over {self._links.name(link)}, "
            "which is not one of its own"
        )

    def no_link(self, link: int) -> ProtocolFault:
        """A send over a link that nobody has."""
        return ProtocolFault(f"a send names link {link}; there are links 0 to {self._links.count - 1}")

    def no_client(self, event: int, client: int) -> ProtocolFault:
        """A delivery to a client of another broker, or of none."""
        broker = int(self._bench.narrow[L.N_BROKER, event])
        return ProtocolFault(f"broker {broker} delivered to client {client}, which is not attached to it")

    def _too_soon(self, event: int, delay: int) -> ProtocolFault:
        service, broker = (int(self._bench.narrow[row, event]) for row in (L.N_SERVICE, L.N_BROKER))
        declared = int(self._services.timer_min[service, broker])
        return ProtocolFault(
            f"service {self._services.name(service)!r} set a timer of {delay} ns, "
            f"below its declared timer_min_ns of {declared} ns (and at least 1 ns)"
        )

    def _bad_cost(self, event: int) -> ProtocolFault:
        charged = int(self._bench.cost[event])
        if charged < 0:
            return ProtocolFault(f"an event was charged a negative service time ({charged} ns)")
        broker = self._links.names[self._bench.narrow[L.N_BROKER, event]]
        return ProtocolFault(
            f"the service of a message at broker {broker} would end beyond "
            f"{NEVER / 1e9:.3g} s of simulated time: check the cost model, and what the protocol charges"
        )


_NO_NUMBERS = (TypeError, ValueError, OverflowError)  # what NumPy raises of what is none


class understood:
    """A context in which what a protocol answered is numbers, or its fault."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _NO_NUMBERS):
            raise ProtocolFault(
                f"what a protocol answered are no numbers as {self._what} have them: {error}"
            ) from error


def refuse_noise(model: Model, handled: int, time_ns: int) -> None:
    """NeverQuiet if more was handled by a time than overlay and workload can have caused."""
    if model.messages_max < min(handled, NEVER):
        services = ", ".join(f"{service.name!r} ({shown(service.protocol_target)})" for service in model.services)
        raise NeverQuiet(
            f"verdict invalid: it never gets quiet: {handled:,} messages and timers were handled by "
            f"{min(time_ns, model.duration_ns + model.drain_ns) / 1e9:.3f} s, and overlay and workload explain no more "
            f"than {model.messages_max:,} (engine.messages_max); the services are {services}"
        )
