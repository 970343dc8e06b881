/* A program that asks the runtime for one version of a plugin and then trains without naming versions.
 *
 *   bound_version CONFIG DATA OUT KIND NAME VERSION
 */
#include <stdio.h>
#include <string.h>
#include <weft/booster.h>

static weft_str str(const char* text) {
  return (weft_str){text, strlen(text)};
}

static int failed(weft_status status, const weft_error* error) {
  if (status == WEFT_OK) return 0;
  fprintf(stderr, "bound_version: %.*s\n", (int)weft_error_text(error).size, weft_error_text(error).data);
  return 1;
}
#define CHECK(call) \
  if (failed((call), error)) goto end

int main(int argc, char** argv) {
  int result = 1;
  weft_error* error = weft_error_create();
  weft_runtime* runtime = NULL;
  weft_model* model = NULL;
  weft_optimizer* optimizer = NULL;
  weft_data* data = NULL;
  weft_booster* booster = NULL;
  weft_job* job = NULL;
  weft_loaded loaded = {.struct_size = sizeof(loaded)};
  weft_step_result step = {.struct_size = sizeof(step)};
  if (argc != 7) return 2;

  CHECK(weft_runtime_create(WEFT_STR(""), &runtime, error));
  CHECK(weft_runtime_load(runtime, str(argv[4]), str(argv[5]), str(argv[6]), &loaded, error));
  CHECK(weft_model_open(runtime, str(argv[1]), WEFT_STR(""), &model, error));
  CHECK(weft_optimizer_create(runtime, model, WEFT_STR("sgd"), WEFT_STR("{\"lr\": 0.1}"), &optimizer, error));
  CHECK(weft_data_open(runtime, model, str(argv[2]), WEFT_STR("{\"batch_size\": 2, \"sequence_length\": 8}"),
                       &data, error));
  CHECK(weft_booster_create(runtime, WEFT_STR("{\"strategy\": \"torch_ddp\"}"), &booster, error));
  const weft_boost_arguments arguments = {
      .struct_size = sizeof(arguments), .model = model, .optimizer = optimizer, .data = data};
  CHECK(weft_booster_boost(booster, &arguments, &job, error));
  CHECK(weft_job_next(job, &step, error));
  CHECK(weft_booster_save_training(booster, job, str(argv[3]), WEFT_STR(""), error));
  result = 0;

end:
  weft_job_destroy(job);
  weft_booster_destroy(booster);
  weft_data_destroy(data);
  weft_optimizer_destroy(optimizer);
  weft_model_destroy(model);
  weft_runtime_destroy(runtime);
  weft_error_destroy(error);
  return result;
}
