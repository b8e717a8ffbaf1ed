"""Descriptors with source info -> the document: `python -m anycloud_common.rest.openapi api.pb openapi.yaml 1.2.3`."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from google.protobuf import descriptor_pb2

from anycloud_common.rest.openapi import document


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """What stands twice is written twice: anchors are hard to read."""
        return True


def main(api: Path, out: Path, version: str) -> None:
    made = document(descriptor_pb2.FileDescriptorSet.FromString(api.read_bytes()), version)
    text = yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    out.write_text(f"# Made from the .proto files: change those, then `make generate`.\n{text}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
