"""What codecs puts around a stream: matplotlib's pictures in SVG keep such a writer."""

from __future__ import annotations

from pathlib import Path

from .crossing import cross_here, notebook

MAKE = "import codecs, io\n"


def test_a_writer_writes_on_where_it_was() -> None:
    namespace = notebook(MAKE + "out = io.BytesIO(); writer = codecs.getwriter('utf-8')(out); writer.write('a')")
    before = namespace["writer"]

    cross_here(namespace, "writer.write('ä')\nmade = codecs.getwriter('utf-8')(io.BytesIO())\nmade.write('b')")

    assert namespace["out"].getvalue() == "aä".encode() and namespace["writer"] is before
    assert namespace["made"].getvalue() == b"b"


def test_a_reader_reads_on_where_it_was() -> None:
    namespace = notebook(
        MAKE + "reader = codecs.getreader('utf-8')(io.BytesIO(b'one\\ntwo\\nthree\\n')); reader.readline()"
    )

    cross_here(namespace, "found = reader.readline()")

    assert namespace["found"] == "two\n" and namespace["reader"].readline() == "three\n"


def test_one_around_an_open_file_writes_on_in_it(tmp_path: Path) -> None:
    namespace = notebook(MAKE + f"writer = codecs.open('{tmp_path}/log', 'w', 'utf-8'); writer.write('ä')")

    cross_here(namespace, "writer.write('ö'); writer.close()")

    assert (tmp_path / "log").read_text() == "äö" and namespace["writer"].closed
