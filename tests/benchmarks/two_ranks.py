"""Compares Weft's strategies with PyTorch's on the same job, alternately, and prints a table.

  python tests/benchmarks/two_ranks.py --build build/release [--pairs ddp ddp_views ddp_bert ddp_dropout ddp_vit zero fsdp gemini
      tensor sequence pipeline] [--rounds 3] [--steps 8] [--timeout 900]

4 samples of 256 tokens a rank, fp32, fused AdamW, two ranks of one thread each, Gloo on loopback. PyTorch runs Hugging Face's
model, not compiled. Pairs on GPT-2 (gpt2_6x384.json): torch_ddp and DistributedDataParallel without and with
gradient_as_bucket_view (ddp_bert, ddp_dropout and ddp_vit are the first of these on BERT, on GPT-2 with dropout 0.1, and on ViT),
low_level_zero stage 1 and ZeroRedundancyOptimizer over DDP, torch_fsdp and fully_shard by block (FSDP2), gemini and Weft's own
torch_fsdp. On Llama (llama_6x384.json), whose ranks share their 4 samples: hybrid_parallel with tp_size 2 and DTensor's parallelize_module with a vocabulary-parallel embedding and head; the sequence_parallelism_modes beside
tp_size 2; and torch_ddp with pp_size 2 and torch.distributed.pipelining, both with 1f1b, 4 micro-batches of one sample, and the same
division: the embeddings and 4 blocks, then 2 blocks and the head.
Needs a Python with torch 2.11 and transformers (packaging/oracle-python prints one) and a build with -DWEFT_BENCHMARKS=ON.

Rates are those of the best step of all rounds, per second of wall time and of processor time, after two steps to warm up. Memory is of
the largest rank: the growth of its resident set since the moment after all imports and before the model, and the peak of the whole
process. Bytes are the difference of the loopback device's counter over the steps after the warm-up, per rank and step; traffic of other
programs on this device would be in it.

A run that fails, or takes longer than --timeout seconds, is a line of the table with its error, and the others go on; the exit code is
then 1.
"""
import argparse, copy, json, os, pathlib, resource, socket, subprocess, sys, tempfile, time

from in_turn import Failed, in_turn, last_line, training_step_of
from single_rank import batch_of, peer_of

HERE = pathlib.Path(__file__).resolve().parent
BATCH, SEQUENCE, RANKS, WARM_UP = 4, 256, 2, 2
MICRO_BATCHES = 4
STAGE_BLOCKS = (4, 2)  # of llama_6x384.json, as Weft divides it: the head costs about as much as 2 blocks
SHARED_SAMPLES = ("tensor", "sequence", "pipeline")  # pairs on Llama, in which all ranks train on the same samples
MODELS = {"ddp_bert": "bert", "ddp_dropout": "gpt2_dropout", "ddp_vit": "vit"} | dict.fromkeys(SHARED_SAMPLES, "llama")  # the others: gpt2


def split_over(axis, mode):
    return {axis: 2, "enable_sequence_parallelism": True, "sequence_parallelism_mode": mode}


# pair: (PyTorch's mode or None, Weft's runs as strategy and options; the ratio is of the first to the last of all)
PAIRS = {
    "ddp": ("ddp", [("torch_ddp", {})]),
    "ddp_bert": ("ddp_bert", [("torch_ddp", {})]),
    "ddp_dropout": ("ddp_dropout", [("torch_ddp", {})]),
    "ddp_vit": ("ddp_vit", [("torch_ddp", {})]),
    "ddp_views": ("ddp_views", [("torch_ddp", {"gradient_as_bucket_view": True})]),
    "zero": ("zero", [("low_level_zero", {"stage": 1})]),
    "fsdp": ("fsdp", [("torch_fsdp", {})]),
    "gemini": (None, [("gemini", {}), ("torch_fsdp", {})]),
    "tensor": ("tensor", [("hybrid_parallel", {"tp_size": 2})]),
    "sequence": (None, [("hybrid_parallel", options) for options in (
        split_over("tp_size", "split_gather"), split_over("tp_size", "ring"), split_over("sp_size", "all_to_all"),
        split_over("sp_size", "ring_attn"), {"tp_size": 2})]),
    "pipeline": ("pipeline", [("torch_ddp", {"pp_size": RANKS, "pp_style": style, "num_microbatches": MICRO_BATCHES})
                              for style in ("zbv", "zbh1", "1f1b")]),
}


def model_of(pair):
    return MODELS.get(pair, "gpt2")


def config_of(pair):
    return HERE / f"{model_of(pair)}_6x384.json"


def resident_mib(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024


def loopback_mib():
    for line in open("/proc/net/dev"):
        if line.strip().startswith("lo:"):
            return int(line.split()[1]) / 2**20


def distribute(model, mode):
    import torch
    if mode not in ("fsdp", "tensor"):
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=mode in ("ddp_views", "zero"))
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (RANKS,))
    if mode == "tensor":
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        column, row = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"), ("self_attn.o_proj", "mlp.down_proj")
        for block in model.model.layers:
            parallelize_module(block, mesh, {**{n: ColwiseParallel() for n in column}, **{n: RowwiseParallel() for n in row}})
        return parallelize_module(model, mesh, {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                                                "lm_head": ColwiseParallel(output_layouts=Replicate())})
    from torch.distributed.fsdp import fully_shard
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def optimizer_of(model, mode):
    import torch
    options = dict(lr=1e-3, weight_decay=0.01, fused=True)
    if mode == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **options)
    groups = {}  # the fused kernel takes no mix of DTensor and Tensor
    for parameter in model.parameters():
        groups.setdefault(type(parameter.data), []).append(parameter)
    return torch.optim.AdamW([{"params": group} for group in groups.values()], **options)


def own_stage(config, rank):
    """This rank's stage of Llama: a module from ids to hidden states, or from hidden states to logits."""
    import torch, transformers

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            own = copy.deepcopy(config)
            own.num_hidden_layers = STAGE_BLOCKS[rank]
            if rank == 0:
                self.model = transformers.LlamaModel(own)
                self.model.norm = torch.nn.Identity()
            else:
                self.model = transformers.LlamaForCausalLM(own)
                self.model.model.embed_tokens = None

        def forward(self, entered):
            if rank == 0:
                return self.model(input_ids=entered).last_hidden_state
            return self.model(inputs_embeds=entered).logits

    return Stage().train()


def pipelined(config, rank, ids):
    """The model on this rank and its forward and backward through both stages, which return the last stage's loss."""
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from transformers.loss.loss_utils import ForCausalLMLoss
    if sum(STAGE_BLOCKS) != config.num_hidden_layers:
        raise ValueError(f"STAGE_BLOCKS has {sum(STAGE_BLOCKS)} blocks, but the model {config.num_hidden_layers}")
    model = own_stage(config, rank)
    # The means of equal micro-batches, already divided: Schedule1F1B would divide all gradients instead.
    schedule = Schedule1F1B(PipelineStage(model, rank, RANKS, torch.device("cpu")), MICRO_BATCHES, scale_grads=False,
                            loss_fn=lambda logits, labels: ForCausalLMLoss(logits, labels, config.vocab_size) / MICRO_BATCHES)

    def forward_backward():
        if rank == 0:
            return schedule.step(ids, return_outputs=False)
        losses = []
        schedule.step(target=ids, losses=losses, return_outputs=False)
        return sum(loss.detach() for loss in losses)

    return model, forward_backward


def distributed(config, mode, batch):
    """The model on this rank and its forward and backward, which return the loss."""
    peer, _ = peer_of(model_of(mode))
    model = distribute(peer(config).train(), mode)

    def forward_backward():
        loss = model(**batch).loss
        loss.backward()
        return loss

    return model, forward_backward


def import_all(config):
    """What torch and transformers import on first use; the model on the meta device has no memory."""
    import torch, torch._dynamo, torch.distributed.fsdp, torch.distributed.optim, torch.distributed.pipelining, transformers
    import torch.distributed.tensor.parallel, transformers.loss.loss_utils
    with torch.device("meta"):
        getattr(transformers, config.architectures[0])(config)


def worker(steps, mode):
    import torch, torch.distributed as dist, transformers
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    config = transformers.AutoConfig.from_pretrained(config_of(mode), use_cache=False)
    import_all(config)
    rank, before = dist.get_rank(), resident_mib("VmRSS")
    torch.manual_seed(0)
    is_shared = mode in SHARED_SAMPLES
    batch = batch_of(config, SEQUENCE, seed=1 + rank * (not is_shared))
    model, forward_backward = pipelined(config, rank, batch["input_ids"]) if mode == "pipeline" else distributed(config, mode, batch)
    optimizer = optimizer_of(model, mode)
    seconds, processor, sent = [], [], 0
    for step in range(steps):
        if step == WARM_UP:
            dist.barrier()
            sent = loopback_mib()
        start, used = time.perf_counter(), time.process_time()
        loss = forward_backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    dist.barrier()
    sent = loopback_mib() - sent
    print(json.dumps(dict(rank=rank, tokens=BATCH * SEQUENCE * (1 if is_shared else RANKS), seconds=seconds, processor_seconds=processor,
                          loss=None if loss is None else loss.detach().item(), resident_mib_before=before, loopback_mib=sent,
                          resident_mib_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)), flush=True)
    dist.destroy_process_group()


def end(processes):
    """Ends the processes that still run."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def lines_of(commands, environments, timeout):
    """Runs commands at once. Returns the lines that they print; when one fails, ends the others."""
    with tempfile.TemporaryDirectory() as folder:
        texts = [pathlib.Path(folder) / str(i) for i in range(len(commands))]
        processes, deadline = [], time.monotonic() + timeout
        try:
            for command, environment, text in zip(commands, environments, texts):
                with open(f"{text}.out", "w") as out, open(f"{text}.err", "w") as err:
                    processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=err))
            codes = [None]
            while None in codes and not any(codes):
                if time.monotonic() > deadline:
                    raise Failed(f"ran longer than {timeout:.0f} s")
                time.sleep(0.1)
                codes = [process.poll() for process in processes]
        finally:
            end(processes)
            errors = [pathlib.Path(f"{text}.err").read_text() for text in texts]
            sys.stderr.write("".join(errors))
        if any(codes):
            raise Failed("; ".join(f"exit code {code}: {last_line(error)}"
                                   for code, error in zip(codes, errors) if code))
        return [line for text in texts for line in pathlib.Path(f"{text}.out").read_text().splitlines()]


def results_of(commands, environments, timeout):
    """What each rank measured."""
    results = [json.loads(line) for line in lines_of(commands, environments, timeout) if line.startswith("{")]
    if len(results) != RANKS:
        raise Failed(f"{len(results)} of {RANKS} ranks have printed their figures")
    return sorted(results, key=lambda result: result["rank"])


def run_torch(arguments, mode):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    shared = dict(os.environ, WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1",
                  GLOO_SOCKET_IFNAME="lo", TRANSFORMERS_VERBOSITY="error")
    command = [sys.executable, "-W", "ignore", __file__, "--worker", mode, "--steps", str(arguments.steps)]
    return results_of([command] * RANKS, [dict(shared, RANK=str(r), LOCAL_RANK=str(r)) for r in range(RANKS)], arguments.timeout)


def run_weft(arguments, model, strategy, options):
    booster = json.dumps({"strategy": strategy, "options": options})
    command = [pathlib.Path(arguments.build) / "bin/weft", "run", "-n", str(RANKS), arguments.program, "booster",
               model, str(BATCH), str(SEQUENCE), str(arguments.steps), booster]
    return results_of([command], [dict(os.environ, OMP_NUM_THREADS="1")], arguments.timeout)


def summary(rounds):
    first = rounds[0][0]
    steps = range(WARM_UP, len(first["seconds"]))
    best = min(ranks[0]["seconds"][i] for ranks in rounds for i in steps)
    cpu = min(sum(r["processor_seconds"][i] for r in ranks) for ranks in rounds for i in steps)
    growth = max(r["resident_mib_peak"] - r["resident_mib_before"] for ranks in rounds for r in ranks)
    whole = max(r["resident_mib_peak"] for ranks in rounds for r in ranks)
    wire = min(r["loopback_mib"] for ranks in rounds for r in ranks) / RANKS / len(steps)
    return dict(best=first["tokens"] / best, per_cpu=first["tokens"] / cpu, growth=growth, whole=whole, wire=wire)


def measure(arguments, pair):
    """The figures of a pair's runs by their names, or why a run failed."""
    torch_mode, weft_runs = PAIRS[pair]
    runs = {f"Weft {s} {o.get('sequence_parallelism_mode', o.get('pp_style', ''))}".strip(): lambda s=s, o=o: run_weft(arguments, config_of(pair), s, o)
            for s, o in weft_runs}
    if torch_mode:
        runs[f"PyTorch {torch_mode}"] = lambda: run_torch(arguments, torch_mode)
    return {name: rounds if isinstance(rounds, Failed) else summary(rounds) for name, rounds in in_turn(runs, arguments.rounds).items()}


def compare(arguments, pair):
    """Prints the lines of a pair. Returns the ratios of its first run to its last, and the runs that failed."""
    figures = measure(arguments, pair)
    for name, f in figures.items():
        if isinstance(f, Failed):
            print(f"| {pair} | {name} | {str(f).replace('|', '/')} | | | | |", flush=True)
        else:
            print(f"| {pair} | {name} | {f['best']:.0f} | {f['per_cpu']:.0f} | {f['growth']:.0f} | {f['whole']:.0f} | {f['wire']:.1f} |", flush=True)
    failed = [f"{pair} ({name})" for name, f in figures.items() if isinstance(f, Failed)]
    (first, ours), (last, other) = list(figures.items())[0], list(figures.items())[-1]
    if isinstance(ours, Failed) or isinstance(other, Failed):
        return f"{first} / {last}: no ratio, because a run failed", failed
    return (f"{first} / {last}: best step {ours['best'] / other['best']:.3f}, per processor second "
            f"{ours['per_cpu'] / other['per_cpu']:.3f}, memory {ours['growth'] / other['growth']:.3f}, "
            f"bytes {ours['wire'] / other['wire']:.3f}"), failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.steps <= WARM_UP:
        p.error(f"--steps is {a.steps}, must be more than the {WARM_UP} steps to warm up")
    if a.worker:
        return worker(a.steps, a.worker)
    a.program = training_step_of(p, a.build)
    print("| pair | run | tokens/s, best step | tokens per processor second | growth of memory, MiB | whole process, MiB | sent, MiB |")
    print("|---|---|---|---|---|---|---|")
    compared = [compare(a, pair) for pair in a.pairs]
    print("\n" + "\n".join(ratio for ratio, _ in compared))
    if failed := [name for _, names in compared for name in names]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
