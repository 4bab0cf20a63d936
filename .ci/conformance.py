"""Run the official MCP conformance suite on mcpkit and judge what its checks files say.

    python .ci/conformance.py server client --suite COMMAND [--revision REVISION] [--output FOLDER]

COMMAND starts the suite's command line (`make conformance` installs it and says how). The suite's
own exit code forgives warnings and all that is unscored, and some of its scenarios pass for a peer
that does nothing. So each scenario that the requirement set of a revision names, scored or not,
must have left a checks file with at least one SUCCESS, no FAILURE and no WARNING. A client must
also exit as the scenario allows, in time, with nothing on standard error but words of its own.
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
REVISIONS = ("2025-11-25", "2026-07-28")
RUN_SECONDS = 600                      # a run takes about 30
CLIENT_SECONDS = 60                    # a client takes less than 1
CLIENTS_AT_ONCE = 2                    # some scenarios measure time: more would make them late
OFFENCES = ("FAILURE", "WARNING")

# Scenarios that this release of the suite skips by itself, whoever is tested. Should a later one
# run them, they are judged like all others.
SKIPPED_BY_THE_SUITE = {"tasks-status-notifications"}


# ---- running the suite

@contextlib.contextmanager
def serve_everything(log):
    """Run samples/everything_server.py on a free port while the block runs; yield its URL."""
    command = [sys.executable, "mcpkit.py", "serve", "samples/everything_server.py", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log,
                          text=True) as child:
        try:
            line = child.stdout.readline()
            match = re.search(r"http://\S+", line)
            if match is None:
                raise SystemExit(f"the server did not start: {line or 'see ' + log.name}")
            yield match.group()
        finally:
            child.terminate()


def run_server(suite, revision, folder, scenarios):
    """Run the server scenarios of a revision; their checks files come to be in the folder."""
    with open(folder / "server.log", "w") as log, serve_everything(log) as url:
        run_suite(suite, ["server", "--url", url, "--requirements", revision], folder)
    return {}


def run_client(suite, revision, folder, scenarios):
    """Run the client scenarios of a revision one by one; return {scenario: offences of its run}.

    A run of them all would forget how the clients exited, and start them all at once.
    """
    client = [sys.executable, "-W", "error", str(ROOT / "samples" / "everything_client.py")]
    words = ["client", "--command", shlex.join(client), "--spec-version", revision, "--force",
             "--timeout", str(CLIENT_SECONDS * 1000)]

    def run_one(scenario):
        return find_run_offences(run_suite(suite, [*words, "--scenario", scenario], folder,
                                           scenario.replace("/", "-")))

    with concurrent.futures.ThreadPoolExecutor(CLIENTS_AT_ONCE) as pool:
        return dict(zip(scenarios, pool.map(run_one, scenarios)))


# What can be tested, and the function that has the suite test it. It returns what is wrong with
# scenarios beside their checks.
SIDES = {"server": run_server, "client": run_client}


def run_suite(suite, words, folder, name="suite"):
    """Run a command of the suite; what it finds goes into the folder. Return what it prints.

    That is also kept in NAME.log. Its exit code is of no use (see above), so nothing looks at it.
    """
    run = subprocess.run([*suite, *words, "--output-dir", str(folder)], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_SECONDS)
    (folder / f"{name}.log").write_text(run.stdout)
    return run.stdout


def list_scenarios(suite, side, revision):
    """Return {scenario: whether it is scored} as the suite names them for one side."""
    run = subprocess.run([*suite, "list", "--requirements", revision], cwd=ROOT, text=True,
                         capture_output=True, timeout=RUN_SECONDS)
    scenarios = parse_scenarios(run.stdout, side)
    if run.returncode or not scenarios:
        raise SystemExit(f"the suite does not list its scenarios: {run.stderr or run.stdout}")
    return scenarios


def parse_scenarios(text, side):
    """Return {scenario: whether it is scored} from what `list --requirements` prints.

    Scored ones stand under a heading of their side, unscored ones together, with "[side]" behind.
    """
    scenarios, heading = {}, ""
    for line in text.splitlines():
        if line[:1].strip():
            heading = line
        name = re.match(r" +- (\S+)(?: \[(\w+)\])?$", line)
        if name and (name.group(2) or heading.lower().partition(" ")[0]) == side:
            scenarios[name.group(1)] = name.group(2) is None
    return scenarios


# ---- judging what it found

def find_results(folder, side, name):
    """Return {scenario: text of the file with this name} from what a run left in a folder.

    It lies in [server-]SCENARIO-TIMESTAMP, where a scenario's name may have slashes.
    """
    found = {}
    for path in folder.rglob(name):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "",
                          path.parent.relative_to(folder).as_posix())
        if side == "server":
            scenario = re.sub("^server-", "", scenario)
        found[scenario] = path.read_text(encoding="utf-8")
    return found


def find_offences(checks):
    """Return what is wrong with one scenario's checks, a line each."""
    if checks is None:
        return ["left no checks file: it was not run, or it crashed (see suite.log)"]
    offences = [f"{check['status']} {check['id']}: {describe(check)}" for check in checks
                if check["status"] in OFFENCES]
    if not offences and not any(check["status"] == "SUCCESS" for check in checks):
        statuses = ", ".join(sorted({check["status"] for check in checks})) or "no checks"
        offences.append(f"has no SUCCESS, only {statuses}")
    return offences


def find_run_offences(output):
    """Return what the suite prints of how a client ended, where the scenario does not allow it."""
    return re.findall(r"CLIENT (?:TIMED OUT|EXITED WITH ERROR).*", output)


def find_foreign_lines(stderr):
    """Return the lines on a client's standard error that it did not mean to write, as offences."""
    return [f"standard error: {line}" for line in stderr.splitlines()
            if not line.startswith("everything_client: ")]


def describe(check):
    """Return the message of a check on one line of reasonable length."""
    message = check.get("errorMessage") or check.get("description") or "no message"
    return textwrap.shorten(message, 400, placeholder=" ...")


def is_skipped(scenario, checks):
    """Return whether the suite itself chose not to test this."""
    return scenario in SKIPPED_BY_THE_SUITE and bool(checks) and all(
        check["status"] == "SKIPPED" for check in checks)


def judge(scenarios, found, more=()):
    """Return {scenario: its offences} for all that the suite did not skip by itself.

    `found` are the checks of each, `more` are mappings of other offences.
    """
    return {scenario: find_offences(found.get(scenario)) + [
                offence for offences in more for offence in offences.get(scenario, ())]
            for scenario in scenarios if not is_skipped(scenario, found.get(scenario))}


# ---- reporting

def format_row(side, revision, scenarios, verdicts):
    """Return the line of the table for one run: how many are clean of how many."""
    def count(scored):
        judged = [name for name in verdicts if scenarios[name] is scored]
        return f"{sum(not verdicts[name] for name in judged)}/{len(judged)}"
    return f"{side:8}{revision:12}{count(True):>8}{count(False):>10}"


def run(side, suite, revision, folder):
    """Test one side under one revision, print what is wrong; return (table row, whether clean)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scenarios = list_scenarios(suite, side, revision)
    run_offences = SIDES[side](suite, revision, folder, scenarios)
    checks = {name: json.loads(text)
              for name, text in find_results(folder, side, "checks.json").items()}
    lines = {name: find_foreign_lines(text)
             for name, text in find_results(folder, side, "stderr.txt").items()}
    verdicts = judge(scenarios, checks, [run_offences, lines])
    for scenario, offences in verdicts.items():
        for offence in offences:
            print(f"{revision} {scenario}: {offence}")
    return format_row(side, revision, scenarios, verdicts), not any(verdicts.values())


def main(words=None):
    """Test sides under each revision; return 0 when all is clean, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sides", choices=SIDES, nargs="+", metavar="SIDE",
                        help="what is tested: " + ", ".join(SIDES))
    parser.add_argument("--suite", required=True, type=shlex.split, metavar="COMMAND",
                        help="the command line that starts the suite")
    parser.add_argument("--revision", action="append", choices=REVISIONS,
                        help="only this revision (may be repeated)")
    parser.add_argument("--output", type=pathlib.Path, metavar="FOLDER",
                        default=ROOT / ".work" / "conformance" / "results",
                        help="where checks files and logs go (default: %(default)s)")
    options = parser.parse_args(words)
    results = [run(side, options.suite, revision, options.output.resolve() / side / revision)
               for side in options.sides for revision in options.revision or REVISIONS]
    print(f"{'':8}{'revision':12}{'scored':>8}{'unscored':>10}", *(row for row, _ in results),
          sep="\n")
    return 0 if all(clean for _, clean in results) else 1


if __name__ == "__main__":
    sys.exit(main())
