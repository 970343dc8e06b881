/* Checkpoints and moving a job: what goes on is what would have gone on. */
#include <stdio.h>
#include <string.h>

#include "test.h"

static const test_options kJob = {.optimizer = "adamw",
                                  .hyper = "{\"lr\": 0.01}",
                                  .schedule = "linear_warmup",
                                  .schedule_options = "{\"warmup_steps\": 3, \"total_steps\": 10}",
                                  .data_options = "{\"batch_size\": 8, \"sequence_length\": 16}"};

/* A path that belongs to runs on so many ranks. */
static weft_str in_place(const char* name, int ranks) {
  static char names[4][64];
  static unsigned next = 0;
  char* own = names[next++ % 4];
  snprintf(own, sizeof(names[0]), "%s-%d", name, ranks);
  return str(in_folder(own));
}

static double next_loss(test_job* job) {
  weft_step_result step = {.struct_size = sizeof(step)};
  OK(weft_job_next(job->job, &step, error));
  return step.loss;
}

/* Saves after two steps, in one way and another, and trains two more. */
static void save_everything(double after[2]) {
  test_job job = make_job(&kJob);
  const int n = place.ranks;
  next_loss(&job);
  next_loss(&job);
  OK(weft_booster_save_model(job.booster, job.job, in_place("model", n),
                             str("{\"shard\": true, \"size_per_shard\": 1}"), error));
  OK(weft_booster_save_optimizer(job.booster, job.job, in_place("optimizer.safetensors", n), str(""), error));
  OK(weft_booster_save_lr_scheduler(job.booster, job.job, in_place("schedule.json", n), error));
  OK(weft_booster_save_training(job.booster, job.job, in_place("training", n), str("{\"background\": true}"),
                                error));
  after[0] = next_loss(&job); /* while it is written */
  after[1] = next_loss(&job);
  destroy_job(&job); /* waits for it */
  same_on_one_rank("checkpoint.after", after[1]);
}

static void training_goes_on(int saved_by, const double after[2]) {
  test_job job = make_job(&kJob);
  OK(weft_booster_load_training(job.booster, job.job, in_place("training", saved_by), error));
  for (int i = 0; i < 2; ++i) {
    const double loss = next_loss(&job);
    EXPECT(saved_by != place.ranks || loss == after[i]); /* the same bits in the same layout */
    EXPECT_NEAR(loss, after[i], 1e-11);
  }
  destroy_job(&job);
}

static void parts_load_one_by_one(int saved_by, const double after[2]) {
  test_job job = make_job(&kJob);
  next_loss(&job); /* where the data must be; the values and states of these steps are overwritten */
  next_loss(&job);
  next_loss(&job);
  OK(weft_booster_load_model(job.booster, job.job, in_place("model", saved_by), 1, error));
  OK(weft_booster_load_optimizer(job.booster, job.job, in_place("optimizer.safetensors", saved_by), error));
  OK(weft_booster_load_lr_scheduler(job.booster, job.job, in_place("schedule.json", saved_by), error));
  /* The batch of the fourth step after the second update: what a job makes that skips the third batch. */
  test_job skipping = make_job(&kJob);
  OK(weft_booster_load_training(skipping.booster, skipping.job, in_place("training", saved_by), error));
  const double loss = train_on(&job, 1);
  EXPECT(loss == train_on(&skipping, 1));
  EXPECT(train_on(&job, 2) == train_on(&skipping, 2)); /* the states and the rate were the same too */
  EXPECT(loss != after[0]);
  destroy_job(&job);
  destroy_job(&skipping);
}

static void loading_is_strict_if_asked(void) {
  const test_options options = {.architecture = "GPT2ForTokenClassification"};
  test_job job = make_job(&options);
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_load_model(job.booster, job.job, in_place("model", place.ranks), 1, error),
          "classifier.weight");
  OK(weft_booster_load_model(job.booster, job.job, in_place("model", place.ranks), 0, error));
  destroy_job(&job);
}

static void wrong_places_and_options_are_refused(void) {
  test_job job = make_job(&kJob), idle = make_job(&(test_options){0});
  weft_booster* const booster = job.booster;
  const weft_str out = in_place("refused", place.ranks), none = str(in_folder("none"));
  const weft_str schedule = in_place("schedule.json", place.ranks), model = in_place("model", place.ranks);
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_save_model(booster, job.job, out, str("{\"shards\": true}"), error), "shards",
          "did you mean \"shard\"?");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_save_model(booster, job.job, out, str("{\"size_per_shard\": 0}"), error),
          "size_per_shard");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_save_optimizer(booster, job.job, out, str("[]"), error),
          "save options");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_save_training(booster, job.job, out, str("{\"shard\": 3}"), error), "shard");
  REFUSED(WEFT_NOT_FOUND, weft_booster_load_model(booster, job.job, none, 1, error), "none");
  REFUSED(WEFT_NOT_FOUND, weft_booster_load_optimizer(booster, job.job, none, error), "none");
  REFUSED(WEFT_NOT_FOUND, weft_booster_load_lr_scheduler(booster, job.job, none, error), "none");
  REFUSED(WEFT_NOT_FOUND, weft_booster_load_training(booster, job.job, none, error), "none");
  REFUSED(WEFT_NOT_FOUND, weft_booster_load_training(booster, job.job, model, error), "training_state");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_load_lr_scheduler(booster, job.job, str(place.config), error),
          "holds no learning-rate schedule");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_booster_load_optimizer(idle.booster, idle.job, schedule, error),
          "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_booster_save_optimizer(idle.booster, idle.job, out, str(""), error),
          "optimizer");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_booster_save_lr_scheduler(idle.booster, idle.job, out, error),
          "schedule");
  REFUSED(WEFT_FAILED_PRECONDITION, weft_booster_load_lr_scheduler(idle.booster, idle.job, schedule, error),
          "schedule");
  FILE* file = fopen(out.data, "rb");
  EXPECT(file == NULL); /* nothing was written there */
  destroy_job(&job);
  destroy_job(&idle);
}

static void a_booster_names_its_checkpoint_format(void) {
  const test_options options = {.booster = ", \"checkpoint_io\": \"pytorch\""};
  test_job job = make_job(&options);
  weft_booster* unknown = make_booster(NULL, ", \"checkpoint_io\": \"pytroch\"");
  char file_name[512];
  REFUSED(WEFT_NOT_FOUND,
          weft_booster_save_model(unknown, job.job, in_place("unknown", place.ranks), str(""), error),
          "pytroch", "did you mean \"pytorch\"?");
  const weft_str path = in_place("pytorch", place.ranks);
  OK(weft_booster_save_model(job.booster, job.job, path, str(""), error));
  snprintf(file_name, sizeof(file_name), "%s/pytorch_model.bin", path.data);
  FILE* file = fopen(file_name, "rb");
  EXPECT(file != NULL);
  if (file != NULL) fclose(file);
  OK(weft_booster_load_model(job.booster, job.job, path, 1, error));
  weft_booster_destroy(unknown);
  destroy_job(&job);
}

static void null_is_refused_by_name(void) {
  test_job made = make_job(&kJob);
  weft_booster* const booster = made.booster;
  weft_job* const job = made.job;
  const weft_str path = str(in_folder("null"));
#define REFUSES_NULL(function, ...)                                                                       \
  REFUSED(WEFT_INVALID_ARGUMENT, function(NULL, job, __VA_ARGS__, error), #function ": booster is null"); \
  REFUSED(WEFT_INVALID_ARGUMENT, function(booster, NULL, __VA_ARGS__, error), #function ": job is null")
  REFUSES_NULL(weft_booster_save_model, path, str(""));
  REFUSES_NULL(weft_booster_load_model, path, 1);
  REFUSES_NULL(weft_booster_save_optimizer, path, str(""));
  REFUSES_NULL(weft_booster_load_optimizer, path);
  REFUSES_NULL(weft_booster_save_lr_scheduler, path);
  REFUSES_NULL(weft_booster_load_lr_scheduler, path);
  REFUSES_NULL(weft_booster_save_training, path, str(""));
  REFUSES_NULL(weft_booster_load_training, path);
#undef REFUSES_NULL
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_take_over(NULL, job, error),
          "weft_booster_take_over: booster is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_take_over(booster, NULL, error),
          "weft_booster_take_over: job is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_save_training(booster, job, (weft_str){NULL, 4}, str(""), error),
          "weft_booster_save_training", "4 bytes", "no data");
  destroy_job(&made);
}

static void a_job_moves_to_another_strategy(const double after[2]) {
  test_job job = make_job(&kJob);
  test_batch batch = make_batch(1, ALL_LABELS);
  weft_booster* next = make_booster("torch_fsdp", NULL);
  double loss = 0;
  OK(weft_job_backward(job.job, fields_of(batch.fields, 2), 1, &loss, error));
  REFUSED(WEFT_FAILED_PRECONDITION, weft_booster_take_over(next, job.job, error), "take_over", "gradient");
  OK(weft_job_zero_grad(job.job, error));
  next_loss(&job);
  next_loss(&job);
  OK(weft_booster_take_over(next, job.job, error));
  EXPECT_NEAR(next_loss(&job), after[0], 1e-11);
  OK(weft_booster_save_training(next, job.job, in_place("moved", place.ranks), str(""), error));
  EXPECT_NEAR(next_loss(&job), after[1], 1e-11);
  weft_booster* wrong = make_booster("torch_dpp", NULL);
  REFUSED(WEFT_NOT_FOUND, weft_booster_take_over(wrong, job.job, error), "torch_dpp");
  EXPECT(next_loss(&job) > 0); /* it goes on where it was */
  weft_booster_destroy(wrong);
  weft_booster_destroy(next);
  destroy_batch(&batch);
  destroy_job(&job);
}

void test_checkpoints(void) {
  double after[2] = {0, 0};
  save_everything(after);
  training_goes_on(place.ranks, after);
  if (place.ranks > 1) training_goes_on(1, after);
  parts_load_one_by_one(place.ranks, after);
  loading_is_strict_if_asked();
  wrong_places_and_options_are_refused();
  a_booster_names_its_checkpoint_format();
  null_is_refused_by_name();
  a_job_moves_to_another_strategy(after);
}
