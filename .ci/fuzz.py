"""Give the fuzz targets of the tests to a coverage-guided fuzzer, and keep what it finds.

    python .ci/fuzz.py --seconds 60 [TARGET ...]

`make fuzz` installs the fuzzer (atheris, which drives libFuzzer) and says how. The targets are those
of FUZZ_TARGETS in test_mcpkit.py, each of which gets its share of the time. What they fail on becomes
a row of FINDINGS there, a case that `make test` tries from then on; the inputs that led to something new
stay in .work/fuzz, so that the next run begins where this one ended. Exit code 1: something was found.
"""
import argparse
import contextlib
import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "test_mcpkit.py"
WORK = ROOT / ".work" / "fuzz"
INPUT_SECONDS = 5                      # that one input may take
INPUT_BYTES = 4096
SEEDS = 50                             # inputs to begin with, of those that the tests try
FIGURES = {"stat::number_of_executed_units": "inputs", "cov": "edges"}


def load_tests():
    """Return the module of the tests, whose mcpkit counts where it comes by."""
    sys.path.insert(0, str(ROOT))
    import atheris
    with atheris.instrument_imports(include=["mcpkit"]):
        import mcpkit                                   # noqa: F401
    import test_mcpkit
    return test_mcpkit


def run_target(name, options):
    """Fuzz one target in this process, until libFuzzer ends it."""
    import atheris
    tests = load_tests()
    target, _, pieces = tests.FUZZ_TARGETS[name]
    for data in tests.build_garbage(0, pieces, SEEDS):
        (WORK / name / hashlib.sha1(data).hexdigest()).write_bytes(data)
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


def fuzz(name, seconds):
    """Fuzz one target in a process of its own; return its figures, and what it failed on."""
    corpus, found = WORK / name, WORK / f"{name}-found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}", f"-max_len={INPUT_BYTES}",
               f"-artifact_prefix={found}/", "-print_final_stats=1", str(corpus)]
    child = subprocess.run([sys.executable, __file__, "--child", name, *options], cwd=ROOT,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace")
    figures = {FIGURES[key]: int(value) for key, value
               in re.findall(rf"({'|'.join(FIGURES)}): +(\d+)", child.stdout)}
    failures = [path.read_bytes() for path in sorted(found.iterdir())]
    if child.returncode and not failures:
        raise SystemExit(f"{name}: the fuzzer itself failed:\n{child.stdout[-2000:]}")
    (WORK / f"{name}.log").write_text(child.stdout)
    for path in found.iterdir():
        path.unlink()
    return figures, failures


def keep(name, data):
    """Add a row to the table of findings in the tests; it is named for a person to name it better."""
    row = f'    "{name} {hashlib.sha1(data).hexdigest()[:8]}": ("{name}", {data!r}),\n'
    source = TESTS.read_text(encoding="utf-8")
    if row not in source:
        TESTS.write_text(source.replace("\nFINDINGS = {\n", "\nFINDINGS = {\n" + row, 1), encoding="utf-8")


def list_targets():
    """Return the names of the targets, which need not be loaded for that."""
    table = TESTS.read_text(encoding="utf-8").partition("\nFUZZ_TARGETS = {\n")[2].partition("\n}\n")[0]
    return re.findall(r'"(\w+)": \(fuzz_', table)


def main():
    if sys.argv[1:2] == ["--child"]:
        return run_target(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("targets", nargs="*", help="all of them where none is named")
    options = parser.parse_args()
    targets, count = options.targets or list_targets(), 0
    for name in targets:
        figures, failures = fuzz(name, max(1, options.seconds // len(targets)))
        for data in failures:
            keep(name, data)
        count += len(failures)
        print(f"{name:14} {figures.get('inputs', 0):9,} inputs  {figures.get('edges', 0):6,} edges  "
              f"{len(failures) or 'nothing'} found", flush=True)
    if count:
        print(f"see the new rows of FINDINGS in {TESTS.name}, and the logs in {WORK.relative_to(ROOT)}")
    return 1 if count else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
