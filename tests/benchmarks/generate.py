"""Tokens a second of `weft generate` beside transformers' generate() with its own cache, on one thread, in turn.

  python tests/benchmarks/generate.py --build build/release [--models gpt2 llama] [--batches 1 8] [--prompt 64] [--new 192] [--rounds 3]

Each model is MODEL_6x384.json of this folder with random weights that both read: 6 layers of width 384. All sequences have --prompt
tokens and get --new more, greedily and without a stop id; fp32. Needs a Python with torch 2.11, transformers and safetensors
(packaging/oracle-python prints one). Each run is a process of its own: Weft's number is that of --json, which counts the time from the
first prompt token to the last new one, and transformers' is the same after one short generation to warm up. The rates are the best of all
rounds; the ratio is the median over the rounds. A run that fails is a line of the table with its error, and the exit code is then 1.
"""
import argparse, json, os, pathlib, statistics, sys, tempfile, time

from in_turn import Failed, in_turn, json_lines

HERE = pathlib.Path(__file__).resolve().parent
MODELS = sorted(path.name.removesuffix("_6x384.json") for path in HERE.glob("*_6x384.json"))


def write_model(model, folder):
    """A folder with random weights of the model's file, without stop ids."""
    import torch
    import transformers
    torch.manual_seed(0)
    given = json.loads((HERE / f"{model}_6x384.json").read_text())
    config = transformers.AutoConfig.for_model(**given)
    config.eos_token_id = config.bos_token_id = config.pad_token_id = None
    made = getattr(transformers, given["architectures"][0])(config)
    made.generation_config = transformers.GenerationConfig()
    made.save_pretrained(folder)
    (folder / "generation_config.json").write_text("{}")


def prompts_of(batch, length, vocabulary):
    return [[(7 * row + 3 * position + row * position) % vocabulary for position in range(length)] for row in range(batch)]


def worker(a):
    import torch
    import transformers
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(a.folder, dtype=torch.float32).eval()
    ids = torch.tensor(prompts_of(a.batches[0], a.prompt, model.config.vocab_size))
    keys = dict(attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=None)
    with torch.inference_mode():
        model.generate(ids, max_new_tokens=4, **keys)
        begin = time.perf_counter()
        found = model.generate(ids, max_new_tokens=a.new, **keys)
        seconds = time.perf_counter() - begin
    assert found.shape[1] == a.prompt + a.new, found.shape
    print(json.dumps(dict(tokens_per_second=a.batches[0] * a.new / seconds, ids=found[:, a.prompt:].tolist())))


def lines_of(command, timeout):
    return json_lines(command, timeout, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")


def weft(a, folder, prompts, batch):
    lines = lines_of([a.program, "generate", "--model", str(folder), "--prompts", str(prompts), "--batch-size", str(batch), "--greedy",
                      "--stop-ids", "", "--max-new-tokens", str(a.new), "--json"], a.timeout)
    return dict(tokens_per_second=lines[0]["tokens_per_second"], ids=[line["ids"] for line in lines])


def peer(a, folder, batch):
    return lines_of([sys.executable, "-W", "ignore", __file__, "--worker", "--folder", str(folder), "--batches", str(batch), "--prompt",
                     str(a.prompt), "--new", str(a.new)], a.timeout)[0]


def compare(a, model, folder, batch):
    """Prints the lines of a model and a batch. Returns the names of the runs that failed."""
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    prompts = folder / f"prompts_{batch}.jsonl"
    prompts.write_text("".join(json.dumps(dict(prompt_ids=ids)) + "\n" for ids in prompts_of(batch, a.prompt, vocabulary)))
    runs = in_turn({"Weft": lambda: weft(a, folder, prompts, batch), "transformers": lambda: peer(a, folder, batch)}, a.rounds)
    ours, failed = runs["Weft"], []
    for name, rounds in runs.items():
        if isinstance(rounds, Failed):
            print(f"| {model} | {batch} | {name} | {rounds} | |", flush=True)
            failed.append(f"{model}, batch {batch} ({name})")
            continue
        ratio = ""
        if name != "Weft" and not isinstance(ours, Failed):
            ratio = f"{statistics.median(w['tokens_per_second'] / r['tokens_per_second'] for r, w in zip(rounds, ours)):.2f}"
            same = sum(w == r for w, r in zip(ours[0]["ids"], rounds[0]["ids"]))
            ratio += f" ({same} of {batch} sequences have the same ids)"
        print(f"| {model} | {batch} | {name} | {max(r['tokens_per_second'] for r in rounds):.1f} | {ratio} |", flush=True)
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--models", nargs="+", choices=MODELS, default=["gpt2", "llama"])
    p.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    p.add_argument("--prompt", type=int, default=64, help="tokens of each prompt")
    p.add_argument("--new", type=int, default=192, help="tokens to generate")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--timeout", type=float, default=600, help="seconds of one run")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a)
    a.program = str(pathlib.Path(a.build) / "bin/weft")
    if not os.access(a.program, os.X_OK):
        p.error(f"there is no program {a.program}; give --build the folder of a build")
    failed = []
    print("| model | batch | run | tokens/s | Weft is faster by |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models:
            made = pathlib.Path(folder) / model
            made.mkdir()
            write_model(model, made)
            for batch in a.batches:
                failed += compare(a, model, made, batch)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
