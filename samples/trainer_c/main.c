/* Trains in C with a trainer: it evaluates, keeps the best checkpoint, and calls a hook of the program, which
 * prints the values and ends the training at a loss.
 *
 *   trainer_c MODEL_FOLDER_OR_CONFIG DATA HELD_OUT OUT [GOAL]
 *   weft run -n 2 trainer_c config.json corpus.txt other.txt out 2.5
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/booster.h>

static weft_str str(const char* text) {
  weft_str value = {text, strlen(text)};
  return value;
}

static int failed(weft_status status, const char* what, const weft_error* error) {
  if (status == WEFT_OK) return 0;
  fprintf(stderr, "trainer_c: %s: %.*s\n", what, (int)weft_error_text(error).size,
          weft_error_text(error).data);
  return 1;
}
#define CHECK(call) \
  if (failed((call), #call, error)) goto end

/* The hook: prints what an evaluation found, and asks to stop at the goal. */
static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error) {
  const double goal = *(const double*)context;
  (void)error;
  for (uint64_t i = 0; i < moment->num_evaluation; ++i) {
    const weft_evaluation_value* const value = &moment->evaluation[i];
    const int is_loss = value->name.size == 4 && memcmp(value->name.data, "loss", 4) == 0;
    if (is_loss && value->defined && value->value <= goal) *requests |= WEFT_ASK_STOP;
    if (moment->rank == 0)
      printf("step %lld: %.*s %.4f\n", (long long)moment->step, (int)value->name.size, value->name.data,
             value->value);
  }
  return WEFT_OK;
}

/* Trains the job, and puts its best step into the folder `out`. */
static int fit(weft_booster* booster, weft_job* job, weft_data* held_out, const char* out, double goal,
               weft_error* error) {
  int result = 1;
  char options[512];
  weft_trainer* trainer = NULL;
  weft_moment ended = {.struct_size = sizeof(ended)};
  const weft_hook hook = {.struct_size = sizeof(hook),
                          .context = &goal,
                          .name = WEFT_STR("goal"),
                          .moments = WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_EVALUATION),
                          .at = at};
  const weft_hook* const hooks[] = {&hook};
  const weft_evaluation_set set = {.name = WEFT_STR("held_out"), .data = held_out};
  snprintf(options, sizeof(options),
           "{\"steps\": 30, \"evaluate_every\": 10, \"output\": \"%s\", \"keep_best\": \"loss\", "
           "\"end_with_best\": true, \"keep_last\": 1, \"progress\": true}",
           out);
  const weft_trainer_arguments arguments = {.struct_size = sizeof(arguments),
                                            .options = str(options),
                                            .hooks = hooks,
                                            .num_hooks = 1,
                                            .evaluation = &set,
                                            .num_evaluation = 1};
  CHECK(weft_trainer_create(booster, job, &arguments, &trainer, error));
  CHECK(weft_trainer_fit(trainer, error));
  CHECK(weft_trainer_describe(trainer, &ended, error));
  if (ended.rank == 0)
    printf("ended after step %lld of %lld, evaluated after step %lld\n", (long long)ended.step,
           (long long)ended.total_steps, (long long)ended.evaluated_step);
  result = 0;

end:
  weft_trainer_destroy(trainer);
  return result;
}

int main(int argc, char** argv) {
  int result = 1;
  weft_error* error = weft_error_create();
  weft_runtime* runtime = NULL;
  weft_model* model = NULL;
  weft_optimizer* optimizer = NULL;
  weft_data *data = NULL, *held_out = NULL;
  weft_booster* booster = NULL;
  weft_job* job = NULL;
  if (argc < 5) {
    fprintf(stderr, "usage: trainer_c MODEL DATA HELD_OUT OUT [GOAL]\n");
    return 2;
  }

  CHECK(weft_runtime_create(WEFT_STR(""), &runtime, error));
  CHECK(weft_model_open(runtime, str(argv[1]), WEFT_STR(""), &model, error));
  CHECK(weft_optimizer_create(runtime, model, WEFT_STR("adamw"), WEFT_STR("{\"lr\": 1e-3}"), &optimizer,
                              error));
  CHECK(weft_data_open(runtime, model, str(argv[2]), WEFT_STR("{\"batch_size\": 8, \"sequence_length\": 64}"),
                       &data, error));
  CHECK(weft_data_open(runtime, model, str(argv[3]),
                       WEFT_STR("{\"batch_size\": 8, \"sequence_length\": 64, \"shuffle\": false}"),
                       &held_out, error));
  CHECK(weft_booster_create(runtime, WEFT_STR("{\"max_grad_norm\": 1.0}"), &booster, error));
  const weft_boost_arguments arguments = {
      .struct_size = sizeof(arguments), .model = model, .optimizer = optimizer, .data = data};
  CHECK(weft_booster_boost(booster, &arguments, &job, error));
  result = fit(booster, job, held_out, argv[4], argc > 5 ? atof(argv[5]) : 0, error);

end:
  weft_job_destroy(job);
  weft_booster_destroy(booster);
  weft_data_destroy(held_out);
  weft_data_destroy(data);
  weft_optimizer_destroy(optimizer);
  weft_model_destroy(model);
  weft_runtime_destroy(runtime);
  weft_error_destroy(error);
  return result;
}
