"""`brokerlab validate FILE`: everything wrong with a scenario at once."""

from __future__ import annotations

from scenarios.commands import add_scenario, overrides_of, parser


def command(arguments: list[str]) -> int:
    result = parser(
        "validate",
        "Check a scenario, its network and the files it names. All mistakes are shown at once, each as "
        "file:line:column: path: what is wrong. Exit code 3 if there are any.",
        """
        brokerlab validate study/scenario.yaml
        brokerlab validate quickstart --set duration='1 min'
        """,
    )
    add_scenario(result)
    options = result.parse_args(arguments)

    from scenarios.loader import load
    from scenarios.plan import resolve
    from scenarios.running import fitting

    scenario = load(options.scenario, overrides_of(options), trust=options.trust)
    model = resolve(scenario)
    engine = scenario.model.engine
    listed = max(engine.partition, default=0) + 1 if isinstance(engine.partition, list) else 1
    fitting(scenario, engine.actors or listed, model.overlay, asked=False)
    for note in (*model.overlay.notes, *model.facts["notes"]):
        print(f"note: {note}")
    services = ", ".join(f"{s.section.name} ({s.section.protocol})" for s in scenario.services)
    print(
        f"{scenario.where}: valid; {model.overlay.brokers} brokers, {model.overlay.links} links, {services}"
    )
    return 0
