"""A training step on one rank of one thread beside Hugging Face's model, eager, on the same job, in turn.

  python tests/benchmarks/single_rank.py --build build/release [--model llama_6x384] [--sequence 512] [--rounds 5] [--steps 6]

4 samples, fp32, fused AdamW. Needs a Python with torch 2.11 and transformers (packaging/oracle-python prints one) and a build with
-DWEFT_BENCHMARKS=ON. Weft's step is Booster's under strategy none. Rates are the best step of all rounds, after two of each to warm
up, and tokens per second of processor time; `paired` is the median over rounds of the ratio of best steps.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
BATCH, WARM_UP = 4, 2


def worker(arguments):
    import torch, transformers
    torch.set_num_threads(1)
    torch.manual_seed(0)
    path = HERE / f"{arguments.model}.json"
    config = transformers.AutoConfig.from_pretrained(path, use_cache=False)
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    ids = torch.randint(0, config.vocab_size, (BATCH, arguments.sequence), generator=torch.Generator().manual_seed(1))
    seconds, processor = [], []
    for _ in range(arguments.steps):
        start, used = time.perf_counter(), time.process_time()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    print(json.dumps(dict(seconds=seconds, processor_seconds=processor)))


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    step = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return {name: min(step[name][WARM_UP:]) for name in ("seconds", "processor_seconds")}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--model", default="llama_6x384")
    p.add_argument("--sequence", type=int, default=512)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a)
    commands = {
        "Weft": [f"{a.build}/tests/benchmarks/training_step", "booster", HERE / f"{a.model}.json", str(BATCH),
                 str(a.sequence), str(a.steps)],
        "Hugging Face": [sys.executable, __file__, "--worker", "--model", a.model, "--sequence", str(a.sequence), "--steps",
                         str(a.steps)],
    }
    rounds = [{name: run(command) for name, command in commands.items()} for _ in range(a.rounds)]
    print("| run | tokens/s, best step | tokens per processor second |")
    print("|---|---|---|")
    for name in commands:
        best = {key: BATCH * a.sequence / min(r[name][key] for r in rounds) for key in ("seconds", "processor_seconds")}
        print(f"| {name} | {best['seconds']:.0f} | {best['processor_seconds']:.0f} |")
    for key in ("seconds", "processor_seconds"):
        paired = statistics.median(r["Hugging Face"][key] / r["Weft"][key] for r in rounds)
        print(f"Weft / Hugging Face, {key}: paired {paired:.3f}")


if __name__ == "__main__":
    main()
