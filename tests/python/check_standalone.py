"""Checks whole-model ONNX files with ONNX's own checker, runs them with ONNX Runtime's Python package, and prints how far
their results are off, as JSON.

usage: check_standalone.py < CASES

CASES is a list of {"model": FILE, "inputs": {NAME: SOURCE}, "output": NAME, "expected": SOURCE}. A source is
{"values": [...], "dtype": NAME} or {"file": SAFETENSORS, "tensor": NAME}; it is reshaped to what the model declares.
Printed is a list of {"error": ‖x − expected‖ / ‖expected‖, "domains": [...], "external": BYTES, "own": BYTES}.
"""

import json
import os
import struct
import sys

import numpy as np
import onnx
import onnxruntime

DTYPES = {"F32": np.float32, "I64": np.int64}


def read(source):
    if "values" in source:
        return np.array(source["values"], DTYPES[source["dtype"]])
    with open(source["file"], "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        facts = json.loads(file.read(length))[source["tensor"]]
        begin, end = facts["data_offsets"]
        file.seek(8 + length + begin)
        return np.frombuffer(file.read(end - begin), DTYPES[facts["dtype"]]).reshape(facts["shape"])


def check(case):
    path = case["model"]
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    external = [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    ]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shapes = {port.name: port.shape for port in session.get_inputs()}
    inputs = {name: read(source).reshape(shapes[name]) for name, source in case["inputs"].items()}
    (result,) = session.run([case["output"]], inputs)
    expected = read(case["expected"]).reshape(result.shape).astype(np.float64)
    return {
        "error": float(np.linalg.norm(result - expected) / np.linalg.norm(expected)),
        "domains": sorted({node.domain for node in model.graph.node}),
        "external": sum(int(entry["length"]) for entry in external),
        "own": os.path.getsize(path),
    }


if __name__ == "__main__":
    print(json.dumps([check(case) for case in json.load(sys.stdin)]))
