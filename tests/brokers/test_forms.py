"""Which form of a protocol runs: what is told beforehand is what there was, and the run says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokers.attackers import AttackSpec
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.course import will_be_compiled
from brokers.engine.forms import AUTHOR, COMPILED, SHARD, Form, forms_of
from brokers.engine.simulate import simulate
from brokers.faults import LOST, Crash, Schedule
from brokers.kinds import manifests
from brokers.limits import Limits
from protocols.conformance import REHEARSALS, rehearse
from topology.latent import with_latent
from topology.links import Latent

TREE = REHEARSALS[0]
EVERY = [(kind.name, name) for kind in manifests() for name in kind.protocols]


def short(protocol, kind=None, **more):
    return replace(rehearse(TREE, protocol, kind=kind, **more), duration_ns=30_000_000)


def ran(model, **how):
    """What the run says of each service, once it is what there was."""
    there = []

    def observe(shards):
        for shard in shards.shards:
            views = [AUTHOR if isinstance(each, PlainAdaptor) else SHARD for each in shard.services.protocols]
            there.append([COMPILED if shard.course is not None and view == SHARD else view for view in views])

    told = simulate(model, observe=observe, **how).engine["forms"]
    assert all([each["form"] for each in told.values()] == forms for forms in there) and there
    return told


@pytest.mark.parametrize(("kind", "protocol"), EVERY, ids=lambda value: value)
def test_of_every_protocol_that_form_runs_which_was_told(kind, protocol):
    model = short(protocol, kind)
    (form,) = forms_of(model)
    assert ran(model, actors=2) == {"service": {"form": form.name, "why": form.why}}
    assert will_be_compiled(model) == (form.name == COMPILED)


def crashing(model):
    return replace(model, faults=Schedule((Crash(1, 10, 20, LOST),)))


def with_links_for_any_two(model):
    latent = Latent.model_validate({"all": True, "delay": 5_000_000})
    return replace(model, overlay=with_latent(model.overlay, latent, 1))


def attacked(model):
    spec = AttackSpec("protocols.gossip.attacks:Silent", (1,))
    return replace(model, services=[replace(model.services[0], attackers=(spec,))])


@pytest.mark.parametrize(
    ("protocol", "changed", "more", "told"),
    [
        ("plumtree", None, {}, "compiled"),
        ("plumtree", None, {"view": "message"}, "author's view, since `view: message` asks for it"),
        ("flooding", None, {"tables": "own"}, "author's view, since `tables: own` asks for it"),
        ("plumtree", crashing, {}, "author's view, since brokers of this schedule forget what they knew"),
        ("plumtree", with_links_for_any_two, {}, "author's view, since there are latent links"),
        ("plumtree", None, {"options": {"membership": "hyparview"}}, "author's view, since `membership: hyparview`"),
        ("gossipsub", None, {"options": {"announce_ticks": 1}}, "author's view, since `announce_ticks` asks for it"),
        (
            "gossipsub", None, {"options": {"px": True, "watch_ticks": 1}},
            "author's view, since `px` and `watch_ticks` ask for it",
        ),
        ("gossipsub", lambda model: replace(model, limits=Limits(messages=3)), {}, "author's view, since its plain"),
        ("flooding", with_links_for_any_two, {}, "shard's view, since rows of links between any two"),
        ("gossipsub", attacked, {}, "author's view, since some of its brokers attack"),
        ("trees", None, {}, "author's view"),
    ],
)  # fmt: skip
def test_why_another_form_runs_is_told(protocol, changed, more, told):
    model = short(protocol, **more)
    model = model if changed is None else changed(model)
    (form,) = forms_of(model)
    assert str(form).startswith(told)
    assert ran(model) == {"service": {"form": form.name, "why": form.why}}


def test_rounds_are_compiled_for_all_services_or_for_none():
    model, other = short("plumtree"), short("trees").services[0]
    beside = replace(model, services=[*model.services, replace(other, name="beside", sources=[])])
    assert forms_of(beside) == [
        Form(SHARD, True, "beside beside it cannot be compiled, and rounds are for all services or for none"),
        Form(AUTHOR, False),
    ]
    assert [each["form"] for each in ran(beside).values()] == [SHARD, AUTHOR]


def test_what_was_asked_of_the_engine_alone_has_no_reason_in_the_model():
    from brokers.engine.batching import Cutting

    assert ran(short("plumtree"), cutting=Cutting(compiled="never")) == {"service": {"form": SHARD, "why": ""}}
