/* The trainer: the numbers of a loop by hand, a hook of the program, and refusals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

enum { kSteps = 4 };

static const test_options kTrained = {
    .optimizer = "adamw",
    .hyper = "{\"lr\": 0.01}",
    .data_options = "{\"batch_size\": 128, \"sequence_length\": 16, \"seed\": 3}"};

/* What the hook has seen. */
typedef struct seen {
  double losses[kSteps];
  int evaluations;
  double evaluated;
  int64_t stop_after; /* the step after which it asks to stop; 0: it does not */
} seen;

static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* own_error) {
  seen* const own = context;
  EXPECT(moment->struct_size >= sizeof(weft_moment));
  EXPECT((int)moment->rank == place.rank && (int)moment->world_size == place.ranks);
  if (moment->kind == WEFT_MOMENT_AFTER_STEP && moment->step <= kSteps) {
    own->losses[moment->step - 1] = moment->result->loss;
    if (moment->step == own->stop_after) *requests = WEFT_ASK_STOP;
  }
  if (moment->kind == WEFT_MOMENT_AFTER_EVALUATION) {
    ++own->evaluations;
    for (uint64_t i = 0; i < moment->num_evaluation; ++i)
      if (moment->evaluation[i].name.size == 4 && memcmp(moment->evaluation[i].name.data, "loss", 4) == 0)
        own->evaluated = moment->evaluation[i].value;
  }
  (void)own_error;
  return WEFT_OK;
}

static weft_status fail_at(void* context, const weft_moment* moment, uint32_t* requests,
                           weft_error* own_error) {
  (void)context, (void)moment, (void)requests;
  weft_error_set(own_error, WEFT_CANCELLED, WEFT_STR("as the test wishes"));
  return WEFT_CANCELLED;
}

static weft_hook hook_of(seen* own) {
  return (weft_hook){
      .struct_size = sizeof(weft_hook),
      .context = own,
      .name = WEFT_STR("seen"),
      .moments = WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_STEP) | WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_EVALUATION),
      .at = at};
}

/* A trainer with one hook, and evaluation data if there are some. */
static weft_status create(test_job* job, const char* options, const weft_hook* hook, weft_data* data,
                          weft_trainer** own) {
  const weft_hook* const hooks[] = {hook};
  const weft_evaluation_set set = {.name = WEFT_STR(""), .data = data};
  const weft_trainer_arguments arguments = {.struct_size = sizeof(arguments),
                                            .options = str(options),
                                            .hooks = hooks,
                                            .num_hooks = 1,
                                            .evaluation = &set,
                                            .num_evaluation = data != NULL};
  return weft_trainer_create(job->booster, job->job, &arguments, own, error);
}

static void trains_as_a_loop_by_hand(void) {
  test_job by_hand = make_job(&kTrained), job = make_job(&kTrained);
  weft_data* data = NULL;
  weft_trainer* trainer = NULL;
  weft_moment ended = {.struct_size = sizeof(ended)};
  seen found = {0};
  const weft_hook hook = hook_of(&found);
  OK(weft_data_open(runtime, job.model, str(place.text),
                    WEFT_STR("{\"batch_size\": 128, \"sequence_length\": 16, \"shuffle\": false}"), &data,
                    error));
  OK(create(&job, "{\"steps\": 4, \"evaluate_every\": 2}", &hook, data, &trainer));
  weft_data_destroy(data);
  OK(weft_trainer_fit(trainer, error));
  for (int i = 0; i < kSteps; ++i) {
    weft_step_result step = {.struct_size = sizeof(step)};
    OK(weft_job_next(by_hand.job, &step, error));
    EXPECT(found.losses[i] == step.loss);
    EXPECT(step.updated == 1 && step.loss_scale == 0);
  }
  EXPECT(found.evaluations == 2);
  same_on_one_rank("trainer.evaluated", found.evaluated);
  OK(weft_trainer_describe(trainer, &ended, error));
  EXPECT(ended.kind == WEFT_MOMENT_END && ended.step == kSteps && ended.evaluated_step == kSteps);
  EXPECT(ended.result != NULL && ended.result->loss == found.losses[kSteps - 1]);
  EXPECT(ended.num_evaluation > 1 && ended.evaluation[0].defined == 1);
  weft_trainer_destroy(trainer);
  destroy_job(&by_hand);
  destroy_job(&job);
}

/* One rank alone asks. */
static void a_hook_stops_all_ranks(void) {
  test_job job = make_job(&kTrained);
  weft_trainer* trainer = NULL;
  weft_moment ended = {.struct_size = sizeof(ended)};
  seen found = {.stop_after = place.rank == 0 ? 2 : 0};
  const weft_hook hook = hook_of(&found);
  OK(create(&job, "{\"epochs\": 1}", &hook, NULL, &trainer));
  OK(weft_trainer_fit(trainer, error));
  OK(weft_trainer_describe(trainer, &ended, error));
  EXPECT(ended.step == 2 && ended.total_steps > 2 && (ended.flags & WEFT_STEP_STOPS) != 0);
  EXPECT(ended.num_evaluation == 0 && ended.evaluated_step == -1);
  REFUSED(WEFT_FAILED_PRECONDITION, weft_trainer_fit(trainer, error), "weft_trainer_fit");
  weft_trainer_destroy(trainer);
  destroy_job(&job);
}

static void trainers_refuse(void) {
  test_job job = make_job(&kTrained);
  static int object;
  weft_trainer* const untouched = (weft_trainer*)(void*)&object;
  weft_trainer* trainer = untouched;
  seen found = {0};
  weft_hook hook = hook_of(&found);
  weft_trainer_arguments arguments = {.struct_size = sizeof(arguments)};
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_create(NULL, job.job, &arguments, &trainer, error), "booster");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_create(job.booster, NULL, &arguments, &trainer, error),
          "job is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_create(job.booster, job.job, NULL, &trainer, error),
          "arguments");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_create(job.booster, job.job, &arguments, NULL, error), "own");
  arguments.num_hooks = 1;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_create(job.booster, job.job, &arguments, &trainer, error),
          "hooks is null");
  REFUSED(WEFT_INVALID_ARGUMENT, create(&job, "{\"step\": 3}", &hook, NULL, &trainer), "step",
          "did you mean");
  REFUSED(WEFT_INVALID_ARGUMENT, create(&job, "{\"steps\": 3}", &hook, job.data, &trainer), "shuffle");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_fit(NULL, error), "trainer is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_describe(NULL, NULL, error), "trainer is null");
  EXPECT(trainer == untouched);
  hook.at = fail_at;
  OK(create(&job, "{\"steps\": 3}", &hook, NULL, &trainer));
  REFUSED(WEFT_INVALID_ARGUMENT, weft_trainer_describe(trainer, NULL, error), "out is null");
  REFUSED(WEFT_CANCELLED, weft_trainer_fit(trainer, error), "seen", "as the test wishes");
  weft_trainer_destroy(trainer);
  weft_trainer_destroy(NULL);
  destroy_job(&job);
}

void test_trainer(void) {
  trains_as_a_loop_by_hand();
  a_hook_stops_all_ranks();
  trainers_refuse();
}
