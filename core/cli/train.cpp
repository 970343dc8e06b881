#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

namespace {

void add_optimizer(EngineVerb& verb) {
  verb.text(
          "--optimizer", "optimizer",
          "sgd, adam, adamw, hybrid_adam, cpu_adam, fused_adam, lamb, lars, lion, adafactor or came; default "
          "adamw")
      .real("--lr", "lr", "Learning rate; default: the optimizer's (adamw 1e-3; came has none)")
      .real("--weight-decay", "weight_decay", "Weight decay; default: the optimizer's")
      .real("--momentum", "momentum", "Momentum of sgd and lars; default 0")
      .reals("--betas", "betas", "Betas of the Adams, lamb and lion: 0.9,0.999; came takes three")
      .real("--eps", "eps", "Epsilon of the Adams and lamb; default 1e-8, of lamb 1e-6")
      .words("--optimizer-option", "optimizer_options",
             "Option of the optimizer, key=value; can be repeated. A wrong key prints the valid ones")
      .text("--lr-scheduler", "lr_scheduler",
            "constant, linear, linear_warmup, cosine_warmup, cosine_annealing, flat_annealing, multi_step, "
            "step, exponential, polynomial, plateau (the last seven also as NAME_warmup) or one_cycle; "
            "default constant")
      .integer("--warmup-steps", "warmup_steps",
               "Warm-up steps of constant and of the _warmup schedules; default 0")
      .words("--lr-scheduler-option", "lr_scheduler_options",
             "Option of the schedule, key=value (gamma=0.1, milestones=[30,60]); can be repeated");
}

void add_step(EngineVerb& verb) {
  verb.real("--max-grad-norm", "max_grad_norm", "Clip gradients to this global norm; default 0: no clipping")
      .text("--recompute", "recompute",
            "Activation recomputation: off, all, or a number of units; default off")
      .integer(
          "--check-agreement", "check_agreement",
          "Compare the ranks (parameters and sums of gradients) also in every N-th step; default 0: only in "
          "the first two steps and before each save; -1: in no step and before no save")
      .device_flags()
      .flag(
          "--enable-cuda-graph", "enable_cuda_graph",
          "Capture forward and backward as a CUDA graph and replay it, for short steps: with batches of one "
          "shape and a strategy that leaves parameters where they are");
}

void add_output(EngineVerb& verb) {
  verb.text("--save", "save",
            "Folder in which to save the model and training_state/ at the end; this job alone may save there")
      .integer("--save-every", "save_every", "Also save to step-N/ in that folder every N steps")
      .flag("--save-async", "save_async", "Write step-N/ in the background; needs memory for a copy")
      .text("--resume", "resume", "Resume from a folder that --save wrote, or from its newest step-N/")
      .text("--metrics", "metrics",
            "File to which each step writes a JSON object: loss, lr, step_seconds, tokens_per_second, ...; "
            "\"skipped\" marks an overflow in fp16. --resume goes on in it")
      .text("--tensorboard", "tensorboard",
            "Folder in which to write the same as event files of TensorBoard; one folder per training, in "
            "which --resume goes on")
      .text("--peak-tflops", "peak_tflops",
            "TFLOP/s that the device of one rank can do, or \"measure\" for those of a matrix product of "
            "2048^3 after the last step; the table at the end then says which part the model used")
      .text("--trace", "trace",
            "File for a trace of what every rank does, for Perfetto (https://ui.perfetto.dev): units, "
            "micro-batches, transfers, collectives, waiting");
}

}  // namespace

void add_train(CLI::App& application) {
  EngineVerb verb(application, "train", "Train a model under a strategy",
                  "Example: weft train --model folder/config.json --data text.txt --strategy NAME -n 2 "
                  "--steps 200 --save out\n"
                  "Strategies: weft plugins list");
  verb.model_flags()
      .allow_missing_flag("only for a head (or adapter) that is new, with a warning")
      .data_flags()
      .loader_flags()
      .flag("--flip", "flip", "Mirror images from left to right, each with probability 1/2")
      .real("--random-crop", "random_crop",
            "Train on random parts of images, resized, with at least this share of their area, such as 0.08; "
            "default: on whole images")
      .objective_flags()
      .strategy_flags("the default plugin")
      .ranks_flag(/*saves=*/true)
      .integer("--batch-size", "batch_size", "Samples per step, over all data-parallel ranks; default 8")
      .integer("--micro-batch-size", "micro_batch_size",
               "Samples in a micro-batch of pipeline stages, as -o microbatch_size=N; default: as many "
               "micro-batches as stages")
      .integer("--accumulate", "accumulate",
               "Micro-batches per step, which pipeline stages divide further; default 1")
      .flag("--no-shuffle", "no_shuffle", "Read samples in the order of the file")
      .integer("--steps", "steps", "Number of steps, including those before --resume")
      .integer("--epochs", "epochs", "Number of epochs, in place of --steps; default 1");
  add_optimizer(verb);
  add_step(verb);
  add_output(verb);
}

}  // namespace weft::cli
