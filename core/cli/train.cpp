#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_train(CLI::App& application) {
  EngineVerb verb(application, "train", "Train a model under a strategy",
                  "Example: weft train --model folder/config.json --data text.txt --strategy NAME -n 2 "
                  "--steps 200 --save out\n"
                  "Strategies: weft plugins list");
  verb.model_flags()
      .text("--data", "data",
            "Text (bytes are tokens), .bin (tokens), or .safetensors (tensors named as the model's inputs)",
            true)
      .text("--token-type", "token_type", "Of .bin data: uint16 or uint32; default uint16")
      .strategy_flags("the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples per step over all data-parallel ranks; default 8")
      .integer("--micro-batch-size", "micro_batch_size", "For pipelines: refused in this version")
      .integer("--accumulate", "accumulate", "Micro-batches per step; default 1")
      .integer("--sequence-length", "sequence_length", "For text and .bin; default: the model's maximum")
      .flag("--no-shuffle", "no_shuffle", "Samples in file order instead of shuffled by --seed")
      .integer("--steps", "steps", "Steps in all, those before --resume included")
      .integer("--epochs", "epochs", "Instead of --steps; default 1")
      .text(
          "--optimizer", "optimizer",
          "sgd, adam, adamw, hybrid_adam, cpu_adam, fused_adam, lamb, lars, lion, adafactor or came; default "
          "adamw")
      .real("--lr", "lr", "Learning rate; default: the optimizer's (adamw 1e-3; came has none)")
      .real("--weight-decay", "weight_decay", "Default: the optimizer's")
      .real("--momentum", "momentum", "Of sgd and lars; default 0")
      .reals("--betas", "betas", "Of the Adams, lamb and lion: 0.9,0.999; of came three numbers")
      .real("--eps", "eps", "Of the Adams and lamb; default 1e-8, lamb 1e-6")
      .words("--optimizer-option", "optimizer_options",
             "Any option of the optimizer, key=value; repeat for more. A wrong key names those there are")
      .text("--lr-scheduler", "lr_scheduler",
            "constant, linear, linear_warmup, cosine_warmup, cosine_annealing, flat_annealing, multi_step, "
            "step, "
            "exponential, polynomial, plateau (the last seven also as NAME_warmup) or one_cycle; default "
            "constant")
      .integer("--warmup-steps", "warmup_steps", "Of constant and the _warmup forms; default 0")
      .words("--lr-scheduler-option", "lr_scheduler_options",
             "Option of the schedule, key=value: gamma=0.1, milestones=[30,60]; repeat for more")
      .real("--max-grad-norm", "max_grad_norm", "Clip by the global norm; default: no clipping")
      .text("--recompute", "recompute", "off, all, or a number of units; default off")
      .text("--device", "device", "cpu; cuda is refused by this build")
      .text("--save", "save", "Folder for the model and training_state/")
      .integer("--save-every", "save_every", "Also DIR/step-N/ every N steps")
      .flag("--save-async", "save_async", "Write step-N/ while training goes on; takes memory for a copy")
      .text("--resume", "resume", "Go on from a folder that --save wrote, or from its newest step-N/")
      .text("--metrics", "metrics",
            "One JSON object a step: loss, grad_norm, lr, step_seconds, tokens_per_second, bytes");
}

}  // namespace weft::cli
