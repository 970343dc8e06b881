/* Trains a model in C: opens a model folder, boosts it with a strategy that is named at run time, trains and
 * saves. Links only libweft.
 *
 *   train_c MODEL_FOLDER_OR_CONFIG DATA OUT [STRATEGY]
 *   weft run -n 2 train_c config.json corpus.txt out torch_ddp
 */
#include <stdio.h>
#include <string.h>

#include <weft/booster.h>

static weft_str str(const char* text) {
  weft_str value = {text, strlen(text)};
  return value;
}

static int failed(weft_status status, const char* what, const weft_error* error) {
  if (status == WEFT_OK) return 0;
  fprintf(stderr, "train_c: %s: %.*s\n", what, (int)weft_error_text(error).size, weft_error_text(error).data);
  return 1;
}
#define CHECK(call) \
  if (failed((call), #call, error)) goto end

int main(int argc, char** argv) {
  int result = 1;
  char options[256];
  weft_error* error = weft_error_create();
  weft_runtime* runtime = NULL;
  weft_model* model = NULL;
  weft_optimizer* optimizer = NULL;
  weft_scheduler* scheduler = NULL;
  weft_data* data = NULL;
  weft_booster* booster = NULL;
  weft_job* job = NULL;
  weft_step_result step = {.struct_size = sizeof(step)};
  weft_status status = WEFT_OK;
  if (argc < 4) {
    fprintf(stderr, "usage: train_c MODEL DATA OUT [STRATEGY]\n");
    return 2;
  }
  snprintf(options, sizeof(options), "{\"strategy\": \"%s\", \"max_grad_norm\": 1.0}",
           argc > 4 ? argv[4] : "");

  CHECK(weft_runtime_create(WEFT_STR(""), &runtime, error));
  CHECK(weft_model_open(runtime, str(argv[1]), WEFT_STR(""), &model, error));
  CHECK(weft_optimizer_create(runtime, model, WEFT_STR("adamw"), WEFT_STR("{\"lr\": 1e-3}"), &optimizer,
                              error));
  CHECK(weft_scheduler_create(runtime, optimizer, WEFT_STR("linear_warmup"),
                              WEFT_STR("{\"warmup_steps\": 5, \"total_steps\": 30}"), &scheduler, error));
  CHECK(weft_data_open(runtime, model, str(argv[2]), WEFT_STR("{\"batch_size\": 8, \"sequence_length\": 64}"),
                       &data, error));
  CHECK(weft_booster_create(runtime, str(options), &booster, error));
  const weft_boost_arguments arguments = {.struct_size = sizeof(arguments),
                                          .model = model,
                                          .optimizer = optimizer,
                                          .data = data,
                                          .scheduler = scheduler};
  CHECK(weft_booster_boost(booster, &arguments, &job, error));

  while (step.index < 30) {
    status = weft_job_next(job, &step, error);
    if (status == WEFT_OUT_OF_RANGE) continue; /* the end of an epoch: the next one begins */
    CHECK(status);
    if (step.index % 10 == 0)
      printf("step %lld loss %.4f norm %.3f\n", (long long)step.index, step.loss, step.grad_norm);
  }
  CHECK(weft_booster_save_model(booster, job, str(argv[3]), WEFT_STR("{\"shard\": true}"), error));
  result = 0;

end:
  weft_job_destroy(job);
  weft_booster_destroy(booster);
  weft_data_destroy(data);
  weft_scheduler_destroy(scheduler);
  weft_optimizer_destroy(optimizer);
  weft_model_destroy(model);
  weft_runtime_destroy(runtime);
  weft_error_destroy(error);
  return result;
}
