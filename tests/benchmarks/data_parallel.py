"""Weft's torch_ddp beside PyTorch's DistributedDataParallel on the same job, in turn, and a table of both.

  python tests/benchmarks/data_parallel.py --build build/release [--rounds 3] [--steps 8]

GPT-2 (gpt2_6x384.json), 4 samples of 256 tokens a rank, fp32, fused AdamW, two ranks of one thread each, Gloo on loopback.
PyTorch runs Hugging Face's model, not compiled. Needs a Python with torch 2.11 and transformers (packaging/oracle-python
prints one) and a build with -DWEFT_BENCHMARKS=ON. Rates are the best step of all rounds and tokens per second of processor
time; memory is the growth of the largest rank's resident set over the moment before the model exists.
"""
import argparse, json, os, pathlib, resource, socket, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
BATCH, SEQUENCE, RANKS = 4, 256, 2


def resident_mib(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024


def worker(steps, views):
    import torch, torch.distributed as dist, transformers
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, before = dist.get_rank(), resident_mib("VmRSS")
    torch.manual_seed(0)
    config = transformers.GPT2Config(**json.load(open(HERE / "gpt2_6x384.json")), use_cache=False)
    model = transformers.GPT2LMHeadModel(config).train()
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=views)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(1 + rank))
    seconds, processor = [], []
    for _ in range(steps):
        start, used = time.perf_counter(), time.process_time()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    print(json.dumps(dict(rank=rank, tokens=BATCH * SEQUENCE * RANKS, seconds=seconds, processor_seconds=processor,
                          loss=float(loss), resident_mib_before=before,
                          resident_mib_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)), flush=True)
    dist.destroy_process_group()


def run_torch(arguments, views):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        command = [sys.executable, __file__, "--worker", "--steps", str(arguments.steps)] + ["--views"] * views
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    return [json.loads(r.communicate()[0].splitlines()[-1]) for r in ranks]


def run_weft(arguments, views):
    build = pathlib.Path(arguments.build)
    options = json.dumps({"strategy": "torch_ddp", "options": {"gradient_as_bucket_view": views}})
    command = [build / "bin/weft", "run", "-n", str(RANKS), build / "tests/benchmarks/training_step", "booster",
               HERE / "gpt2_6x384.json", str(BATCH), str(SEQUENCE), str(arguments.steps), options]
    out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def summary(rounds):
    first = rounds[0][0]
    best = min(s for ranks in rounds for s in ranks[0]["seconds"][2:])
    cpu = min(sum(r["processor_seconds"][i] for r in ranks) for ranks in rounds for i in range(2, len(first["seconds"])))
    growth = max(r["resident_mib_peak"] - r["resident_mib_before"] for ranks in rounds for r in ranks)
    return dict(best=first["tokens"] / best, per_cpu=first["tokens"] / cpu, growth=growth, loss=first["loss"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--views", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a.steps, a.views)
    runs = {("PyTorch DDP", False): run_torch, ("Weft torch_ddp", False): run_weft,
            ("PyTorch DDP", True): run_torch, ("Weft torch_ddp", True): run_weft}
    results = {key: [] for key in runs}
    for _ in range(a.rounds):
        for key, run in runs.items():
            results[key].append(run(a, key[1]))
    print("| | gradient_as_bucket_view | tokens/s, best step | tokens per processor second | growth of resident memory, MiB |")
    print("|---|---|---|---|---|")
    for (name, views), rounds in results.items():
        s = summary(rounds)
        print(f"| {name} | {str(views).lower()} | {s['best']:.0f} | {s['per_cpu']:.0f} | {s['growth']:.0f} |")
    for views in (False, True):
        torch_run, weft_run = summary(results["PyTorch DDP", views]), summary(results["Weft torch_ddp", views])
        print(f"\nviews {str(views).lower()}: Weft / PyTorch: best step {weft_run['best'] / torch_run['best']:.3f}, per processor second "
              f"{weft_run['per_cpu'] / torch_run['per_cpu']:.3f}, memory {weft_run['growth'] / torch_run['growth']:.3f}")


if __name__ == "__main__":
    main()
