"""`brokerlab schema`: JSON Schema of scenario files."""

from __future__ import annotations

import json

from scenarios.commands import parser


def command(arguments: list[str]) -> int:
    result = parser(
        "schema",
        "Print the JSON Schema of scenario files. With the YAML language server, a first line "
        "`# yaml-language-server: $schema=brokerlab.json` gives completion and checks while writing.",
        "brokerlab schema > brokerlab.json",
    )
    result.parse_args(arguments)

    from scenarios.jsonschema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
