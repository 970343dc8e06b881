"""Training steps on one rank of one thread beside Hugging Face's model on the same job, in turn.

  python tests/benchmarks/single_rank.py --build build/release [--models llama bert] [--peers eager compiled] [--sequence 256]
      [--rounds 3] [--steps 6] [--timeout 900]

Each model is MODEL_6x384.json of this folder: 6 layers of width 384. A batch is 4 samples of 256 tokens, 4 images of 196 patches
or 4 spectra of 3 seconds; fp32, fused AdamW. Every token has a label; of the masked language model, BERT, every seventh has. The peer of ChatGLM is transformers' GLM, the same model. Compiled is torch.compile with its
default mode. Needs a Python with torch 2.11 and transformers (packaging/oracle-python prints one), g++ for the compiled peer and
a build with -DWEFT_BENCHMARKS=ON. Weft's step is Booster's under strategy none. Rates are the best step of all rounds, after two of
each to warm up, and samples per second of processor time; the ratios are medians over the rounds of best step to best step.

A run that fails, or takes longer than --timeout seconds, is a line of the table with its error, and the others go on; the exit code is
then 1. The time that each model took goes to stderr. One round with the eager peer (--rounds 1 --peers eager) is a quick first look.
"""
import argparse, json, pathlib, statistics, sys, time

from in_turn import Failed, in_turn, json_lines, training_step_of

HERE = pathlib.Path(__file__).resolve().parent
BATCH, WARM_UP = 4, 2
KEYS = ("seconds", "processor_seconds")
MODELS = sorted(path.name.removesuffix("_6x384.json") for path in HERE.glob("*_6x384.json"))


def config_of(model):
    return HERE / f"{model}_6x384.json"


def peer_of(model):
    """Hugging Face's class and configuration of a model's file."""
    import transformers
    given = json.loads(config_of(model).read_text())
    if model == "chatglm":
        config = transformers.GlmConfig(
            vocab_size=given["padded_vocab_size"], hidden_size=given["hidden_size"], intermediate_size=given["ffn_hidden_size"],
            num_hidden_layers=given["num_layers"], num_attention_heads=given["num_attention_heads"],
            num_key_value_heads=given["multi_query_group_num"], head_dim=given["kv_channels"], partial_rotary_factor=0.5,
            attention_bias=given["add_qkv_bias"], rms_norm_eps=given["layernorm_epsilon"], max_position_embeddings=given["seq_length"],
            attention_dropout=0.0, pad_token_id=0)
        return transformers.GlmForCausalLM, config
    return getattr(transformers, given["architectures"][0]), transformers.AutoConfig.from_pretrained(config_of(model))


def batch_of(config, length, seed=1):
    """Random inputs of the fields that the model takes."""
    import torch
    random = torch.Generator().manual_seed(seed)
    if config.model_type == "vit":
        pixels = torch.randn(BATCH, config.num_channels, config.image_size, config.image_size, generator=random)
        return dict(pixel_values=pixels, labels=torch.randint(0, config.num_labels, (BATCH,), generator=random))
    if config.model_type == "whisper":
        spectra = torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions, generator=random)
        length = min(length, config.max_target_positions)
        return dict(input_features=spectra, labels=torch.randint(0, config.vocab_size, (BATCH, length), generator=random))
    ids = torch.randint(0, config.vocab_size, (BATCH, length), generator=random)
    labels = ids
    if (config.architectures or [""])[0].endswith("ForMaskedLM"):
        labels = torch.full_like(ids, -100)
        labels[:, ::7] = ids[:, ::7]
    return dict(input_ids=ids, labels=labels)


def worker(arguments):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    peer, config = peer_of(arguments.models[0])
    config.use_cache = False
    model = peer(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    batch = batch_of(config, arguments.sequence)
    forward = torch.compile(model) if arguments.worker == "compiled" else model
    seconds, processor = [], []
    for _ in range(arguments.steps):
        start, used = time.perf_counter(), time.process_time()
        forward(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    print(json.dumps(dict(seconds=seconds, processor_seconds=processor)))


def run(command, timeout):
    """The best step of one run after the warm-up."""
    step = json_lines(command, timeout, OMP_NUM_THREADS="1")[-1]
    return {name: min(step[name][WARM_UP:]) for name in KEYS}


def measure(arguments, model):
    """The runs by their names: the best step of each round, or why one failed."""
    commands = {"Weft": [str(arguments.program), "booster", str(config_of(model)), str(BATCH), str(arguments.sequence),
                         str(arguments.steps)]}
    for peer in arguments.peers:
        commands[peer] = [sys.executable, "-W", "ignore", __file__, "--worker", peer, "--models", model, "--sequence",
                          str(arguments.sequence), "--steps", str(arguments.steps)]
    return in_turn({name: lambda c=command: run(c, arguments.timeout) for name, command in commands.items()}, arguments.rounds)


def compare(arguments, model):
    """Prints the lines of a model. Returns the names of the runs that failed."""
    runs = measure(arguments, model)
    ours = runs["Weft"]
    for name, rounds in runs.items():
        if isinstance(rounds, Failed):
            print(f"| {model} | {name} | {rounds} | | | |", flush=True)
            continue
        best, processor = (BATCH / min(r[key] for r in rounds) for key in KEYS)
        ratio = " | "
        if name != "Weft" and not isinstance(ours, Failed):
            ratio = " | ".join(f"{statistics.median(r[key] / w[key] for r, w in zip(rounds, ours)):.2f}" for key in KEYS)
        print(f"| {model} | {name} | {best:.2f} | {processor:.2f} | {ratio} |", flush=True)
    return [f"{model} ({name})" for name, rounds in runs.items() if isinstance(rounds, Failed)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    p.add_argument("--peers", nargs="+", choices=("eager", "compiled"), default=["eager", "compiled"])
    p.add_argument("--sequence", type=int, default=256)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.steps <= WARM_UP:
        p.error(f"--steps is {a.steps}, must be more than the {WARM_UP} steps to warm up")
    if a.worker:
        return worker(a)
    a.program = training_step_of(p, a.build)
    begin, failed = time.monotonic(), []
    print("| model | run | samples/s, best step | samples per processor second | Weft is faster by, best step | per processor second |")
    print("|---|---|---|---|---|---|")
    for model in a.models:
        began = time.monotonic()
        failed += compare(a, model)
        print(f"{model}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"all: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
