"""Run PSL (probabilistic soft logic) in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P psl.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout is the JSON answer:

    {"do": "run", "program": F, "options": O}  run inference on a program in PSL's JSON, with its data files in the
                                               same folder; returns processor seconds of loading, grounding and
                                               solving, terms of each rule, objectives of the iterations and scores,
                                               or {"failed": error message}
    {"do": "values", "file": F}                write an npz with the values of the targets of the last run
    {"do": "arguments", "file": F}             write an npz with the arguments of the targets, as strings

PSL reports most of this only in its log, which goes to stdout. Therefore stdout is redirected to a pipe, the arrival of
each line is recorded in processor time of all threads (including Java's compiler and garbage collector), and answers
are written to a copy of stdout. Objectives are those that PSL reports, with weights divided by the largest weight.
"""

import json
import os
import re
import resource
import sys
import threading
import time

import jpype
import numpy as np
from pslpython import runtime

HEAP = "-Xmx7g"
END = "end of the run"
LINE = re.compile(r"^\d+ \[main\].* - (.*)$")
RULE = re.compile(r"Grounded (\d+) terms from rule (.*)")
ITERATION = re.compile(r"Iteration (\d+) -- Objective: ([-\d.E]+),")
LAST = re.compile(r"Final Objective: ([-\d.E]+), .*Total Number of Iterations: (\d+)")


class Session:
    """Requests to one Java virtual machine, which becomes faster while it runs."""

    def __init__(self):
        read, write = os.pipe()
        os.dup2(write, 1)
        os.close(write)
        self.lines = []
        self.ended = threading.Event()
        threading.Thread(target=self.listen, args=(read,), daemon=True).start()

    def listen(self, read):
        with os.fdopen(read, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                if line.strip() == END:
                    self.ended.set()
                elif match := LINE.match(line):
                    self.lines.append((time.process_time(), match[1]))

    def run(self, program, options):
        with open(program, encoding="utf-8") as file:
            config = json.load(file)
        config["options"] = {"runtime.log.level": "DEBUG", "runtime.inference.output.results": False, **options}
        self.lines = []
        self.ended.clear()
        try:
            result = runtime.run(config, os.path.dirname(program), jvm_options=[HEAP])
        except jpype.JException as error:
            return {"failed": str(error)[:300]}
        jpype.java.lang.System.out.flush()
        os.write(1, f"{END}\n".encode())
        self.ended.wait()
        self.atoms = [atom for atom in result["atoms"] if not atom["observed"]]
        return {**read_log(self.lines), "evaluations": result["evaluations"], "bytes": peak_bytes()}

    def values(self, file):
        np.savez(file, values=np.array([atom["value"] for atom in self.atoms]))
        return {}

    def arguments(self, file):
        np.savez(file, arguments=np.array([atom["arguments"] for atom in self.atoms]))
        return {}


def read_log(lines):
    """Return times, terms and objectives from the log of a run; a stage lasts from one log line to another."""
    seconds_of = {message.partition(" with ")[0]: seconds for seconds, message in lines}
    ground, solve = seconds_of["Grounding out model."], seconds_of.get("Performing optimization")
    answer = {
        "load_seconds": ground - seconds_of["Data loading start"],
        "ground_seconds": seconds_of["Grounding complete."] - ground,
        "rules": [],
        "curve": [],
        "objective": None,
    }
    for seconds, message in lines:
        if rule := RULE.match(message):
            answer["rules"].append([rule[2], int(rule[1])])
        elif step := ITERATION.match(message):
            answer["curve"].append([int(step[1]), float(step[2]), seconds - solve])
        elif last := LAST.match(message):
            answer |= {"objective": float(last[1]), "n_iter": int(last[2]), "solve_seconds": seconds - solve}
    return answer


def peak_bytes():
    """Return the peak memory of this process; on Linux, getrusage would include that of the parent process."""
    if sys.platform == "linux":
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
