"""What the API server's build and the conversion of CRDs for it make of their input."""

import yaml
from api_server import for_1_20
from build_api_server import with_source_packages

DEB822 = """Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://elsewhere
"""


def test_sources_of_both_forms_name_source_packages_too():
    made = with_source_packages(DEB822, ".sources")
    assert made.count("Types: deb deb-src") == 2
    assert made.replace(" deb-src", "") == DEB822.replace(" deb-src", "")
    line = "deb [signed-by=/k.gpg] http://deb.debian.org/debian bookworm main"
    made = with_source_packages(f"# deb http://no\n{line}\n", ".list")
    assert made.splitlines() == ["# deb http://no", line, line.replace("deb [", "deb-src [")]


def test_a_schema_for_1_20_keeps_what_it_can_and_nothing_else():
    schema = yaml.safe_load("""
        type: object
        x-kubernetes-validations: [{rule: "true"}]
        properties:
          name: {type: string, default: ""}
          mode: {type: string, default: K8sJobMode}
          x: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name],
              items: {type: object, required: [name], properties: {name: {type: string}}}}
          y: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port, protocol],
              items: {type: object, required: [port], properties: {protocol: {type: string, default: ""}}}}
          z: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port, protocol],
              items: {type: object, required: [port], properties: {protocol: {type: string, default: TCP}}}}
    """)
    made = for_1_20(schema)
    assert "x-kubernetes-validations" not in made
    assert made["properties"]["name"] == {"type": "string"}
    assert made["properties"]["mode"] == schema["properties"]["mode"]
    assert made["properties"]["x"] == schema["properties"]["x"]
    assert made["properties"]["z"] == schema["properties"]["z"]
    assert made["properties"]["y"]["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-list-map-keys" not in made["properties"]["y"]
