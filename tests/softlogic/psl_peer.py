"""PSL itself, inside its own environment, driven line by line by `test_psl_peer.py`; it imports nothing of ours.

A line on stdin is {"do": "run", "program": FILE}, which PSL's own reader reads. The answer on stdout is
{"atoms": [...], "evaluations": [...]}, or {"failed": messages}.
"""

import json
import os
import sys

import jpype
from pslpython import runtime

JAR = os.path.join(os.path.dirname(runtime.__file__), "psl-runtime.jar")


def run(do, program):
    configuration = jpype.JClass("org.linqs.psl.runtime.RuntimeConfig")
    try:
        jpype.JClass("org.linqs.psl.model.predicate.Predicate").clearForTesting()
        config = configuration.fromFile(program)
        for key, value in {"runtime.log.level": "ERROR", "runtime.inference.output.results": "false"}.items():
            config.options.put(key, value)
        result = json.loads(str(jpype.JClass("org.linqs.psl.runtime.Runtime")().run(config, True).toJSON()))
    except jpype.JException as error:
        messages = []
        while error is not None:
            messages.append(str(error))
            error = error.getCause()
        return {"failed": messages}
    return {"atoms": result["atoms"], "evaluations": result["evaluations"]}


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Java prints is no answer
    jpype.startJVM("-Xmx1g", classpath=[JAR])
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
