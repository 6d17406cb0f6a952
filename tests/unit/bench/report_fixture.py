"""Example reports in the formats of maxsim_bench_gpu and compare_peers.py. Importing this module adds bench/kernels to
the import path."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "kernels"))

FLASH, LIK = "flash-maxsim 0.3.0", "late-interaction-kernels 0.4.5"


def row(shape="1x1000x32x300", storage="f16", d=128, ours=0.024, limit=0.02, tflops=100.0, peers=None):
    return {
        "shape": shape,
        "storage": storage,
        "d": d,
        "ours_ms": ours,
        "limit_ms": limit,
        "tflops": tflops,
        "gbs": 3000.0,
        "max_rel_error": 1e-7,
        "peers": peers if peers is not None else {FLASH: 0.033, LIK: 0.032},
    }


def results(rows, **more):
    return {
        "device": "A device",
        "driver": "1.2",
        "commit": "0123456789ab",
        "command": "compare_peers.py",
        "date": "2026-01-31",
        "limits": {"read_gbs": 4400.0, "fp16_tflops": 860.0},
        "rows": rows,
        **more,
    }


def sweep(ratios, **more):
    names = [f"1x{n + 10}x4x5-9" for n in range(len(ratios))]
    rows = [
        {"shape": name, "storage": "f16", "d": 64, "ours_ms": 0.03 * ratio, "roofline_ms": 0.03, "ratio": ratio}
        for name, ratio in zip(names, ratios)
    ]
    summary = {"seed": 7, "shapes": len(rows), "counted": len(rows), "within_1_5": sum(r <= 1.5 for r in ratios)}
    return {**summary, "worst_ratio": max(ratios), "worst_shape": rows[0]["shape"], "rows": rows, **more}
