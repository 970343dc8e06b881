"""Measures the processor time of the pipeline engine for each operation of a schedule.

  python3 tests/benchmarks/pipeline_cost.py --build build/release [--layers 2 8] [--micro-batches 128] [--steps 30]

The engine is what runs beside the units, the loss, their backwards and the messages between stages. pipeline_cost takes the processor time
of whole steps, of Booster::execute_pipeline and of a hand-written loop that does only those four, in turn, on a Llama of width 16 whose
units cost little. The difference, divided by the number of operations of the schedule, is the engine: splitting the batch, contexts,
hooks, records, the agreement of the stages at the beginning of a step, and everything else. Figures are medians over the steps after two
to warm up, with the quartiles. With split backwards (zbh1, zbv) there are three operations where the loop has two. The table has the rank
whose engine costs more. Needs a build with -DWEFT_BENCHMARKS=ON.
"""
import argparse, json, os, pathlib, statistics, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 2
TINY = dict(hidden_size=16, intermediate_size=32, num_attention_heads=2, num_key_value_heads=2, vocab_size=32, max_position_embeddings=16)
RANKS, STYLES = 2, ("1f1b", "interleaved", "zbh1", "zbv")


def ranks_of(arguments, config, style):
    """What each rank measured."""
    program = [f"{arguments.build}/tests/benchmarks/pipeline_cost", config, style, str(arguments.micro_batches), str(arguments.steps)]
    command = [f"{arguments.build}/bin/weft", "run", "-n", str(RANKS)] + program
    out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def costs_of(rank):
    """Microseconds for each operation: the quartiles of the engine, and the median of the loop."""
    pairs = list(zip(rank["engine_seconds"], rank["loop_seconds"]))[WARM_UP:]
    each = 1e6 / rank["operations"]
    return [each * q for q in statistics.quantiles([engine - loop for engine, loop in pairs], n=4)], each * statistics.median(l for _, l in pairs)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--layers", nargs="+", type=int, default=[2, 8])
    p.add_argument("--micro-batches", type=int, default=128)
    p.add_argument("--steps", type=int, default=30)
    a = p.parse_args()
    if a.steps < WARM_UP + 2:
        p.error(f"--steps is {a.steps}, must be at least {WARM_UP + 2}: {WARM_UP} to warm up, and two for quartiles")
    config = json.loads((HERE / "llama_6x384.json").read_text())
    print("| blocks | schedule | operations of a rank | engine, us per operation | quartiles | units, loss and messages, us per operation |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        for layers in a.layers:
            path.write_text(json.dumps(dict(config, **TINY, num_hidden_layers=layers)))
            for style in STYLES:
                measured = [(costs_of(rank), rank["operations"]) for rank in ranks_of(a, path, style)]
                ((low, engine, high), loop), operations = max(measured, key=lambda m: m[0][0][1])
                print(f"| {layers} | {style} | {operations} | {engine:.1f} | {low:.1f} to {high:.1f} | {loop:.0f} |", flush=True)


if __name__ == "__main__":
    main()
