"""What all cases share: the command, a tiny model, data, and checkpoints of it."""
import json
import os
import random
import shutil

import mutate
from process import Run

CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 12,
    "n_head": 2, "n_layer": 2, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "initializer_range": 0.2,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": True,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "max_position_embeddings": 32,
    "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu",
    "initializer_range": 0.2, "tie_word_embeddings": False, "attention_bias": False,
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": 256, "d_model": 16, "d_kv": 4,
    "d_ff": 24, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16, "dropout_rate": 0.0, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": True, "decoder_start_token_id": 0, "pad_token_id": 0,
}
SAVED = 3  # steps of the checkpoints


class Bench:
    def __init__(self, weft, folder):
        self.weft, self.folder = os.path.abspath(weft), os.path.abspath(folder)
        self.config, self.data = self.path("config.json"), self.path("data.txt")
        os.makedirs(self.folder, exist_ok=True)
        mutate.write(self.config, json.dumps(CONFIG).encode())
        words = "gather of shards rank the a bucket sums and waits".split()
        rng = random.Random(1)
        mutate.write(self.data, " ".join(rng.choice(words) for _ in range(800)).encode())
        ids = b"".join(rng.randrange(256).to_bytes(8, "little") for _ in range(32))
        self.inputs = self.path("inputs.safetensors")
        mutate.write(self.inputs, mutate.safetensors(
            {"input_ids": {"dtype": "I64", "shape": [2, 16], "data_offsets": [0, len(ids)]}}, ids))
        self.made = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *more):
        words = {"--model": self.config, "--data": self.data, "--batch-size": "12", "--sequence-length": "16"}
        own = [word for flag, value in words.items() if flag not in more for word in (flag, value)]
        return ["train", *own, *more]

    def run(self, *words):
        """A command that prepares cases and must work."""
        outcome = Run([self.weft, *words]).finish(120)
        if outcome.code != 0:
            raise RuntimeError(f"{outcome.command()}\nended with {outcome.code}: {outcome.error}")
        return outcome

    def once(self, name, make):
        """A folder of the bench that is made when a case needs it first."""
        if name not in self.made:
            path = self.path(name)
            shutil.rmtree(path, ignore_errors=True)
            self.made[name] = make(path) or path
        return self.made[name]

    def checkpoint(self, ranks=1):
        """A model folder with a training state, after SAVED steps."""
        return self.once(f"checkpoint-{ranks}", lambda path: self.run(
            *self.train(*self.strategy(ranks), "--steps", str(SAVED), "--output", path)) and path)

    @staticmethod
    def strategy(ranks):
        return ["--strategy", "none"] if ranks == 1 else ["-n", str(ranks), "--strategy", "low_level_zero"]

    def with_index(self):
        """The same in two shards with an index."""
        def make(path):
            shutil.copytree(self.checkpoint(), path)
            data = mutate.read(os.path.join(path, "model.safetensors"))
            os.remove(os.path.join(path, "model.safetensors"))
            header, body = mutate.header_of(data)
            names = sorted(name for name in header if name != "__metadata__")
            shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
            for file, own in shards.items():
                entries, part = {"__metadata__": {"format": "pt"}}, b""
                for name in own:
                    begin, end = header[name]["data_offsets"]
                    entries[name] = {**header[name], "data_offsets": [len(part), len(part) + end - begin]}
                    part += body[begin:end]
                mutate.write(os.path.join(path, file), mutate.safetensors(entries, part))
            places = {name: file for file, own in shards.items() for name in own}
            index = {"metadata": {"total_size": len(body)}, "weight_map": places}
            mutate.write(os.path.join(path, "model.safetensors.index.json"), json.dumps(index).encode())
        return self.once("with-index", make)

    def pickled(self):
        """The same as pytorch_model.bin."""
        def make(path):
            shutil.copytree(self.checkpoint(), path)
            os.remove(os.path.join(path, "model.safetensors"))
            self.run("convert", self.checkpoint(), os.path.join(path, "pytorch_model.bin"), "--weights-only")
        return self.once("pickled", make)

    def loss_after(self, folder, ranks):
        """The loss of the step that follows the checkpoint."""
        def make(_):
            metrics = self.path("metrics-" + os.path.basename(folder))
            if os.path.exists(metrics):
                os.remove(metrics)
            self.run(*self.train(*self.strategy(ranks), "--steps", str(SAVED + 1), "--resume", folder,
                                 "--metrics", metrics))
            return json.loads(mutate.read(metrics).splitlines()[0])["loss"]
        return self.once("loss-" + os.path.basename(folder), make)
