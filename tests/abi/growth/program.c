/* A program of each age: built with the headers as they are, with shorter structs and with longer ones, it
 * prints the same lines. What it sets and reads stands in all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/generation.h>

static weft_error* error;

static void check(weft_status status, const char* what) {
  if (status == WEFT_OK) return;
  printf("%s: %.*s\n", what, (int)weft_error_text(error).size, weft_error_text(error).data);
  fflush(stdout);
  _Exit(1);
}

static weft_str str(const char* text) {
  return (weft_str){text, strlen(text)};
}

/* Behind a struct that Weft fills: it writes no byte more than the struct says. */
#define GUARDED(type, name)          \
  struct {                           \
    type value;                      \
    char guard[64];                  \
  } name;                            \
  memset(&name, 0x5a, sizeof(name)); \
  name.value.struct_size = sizeof(type)
#define WHOLE(name) whole(name.guard, #name)

static void whole(const char* guard, const char* name) {
  for (int i = 0; i < 64; ++i)
    if (guard[i] != 0x5a) printf("%s was written beyond its end\n", name);
}

static uint32_t on_token(void* context, const weft_chosen_token* token) {
  ++*(int*)context;
  return token->prompt == 0 && token->sample == 0;
}

static weft_status loss(void* context, const weft_loss_arguments* arguments, weft_error* own_error) {
  (void)context;
  *arguments->loss = (double)arguments->outputs.size;
  weft_error_set(own_error, WEFT_CANCELLED, WEFT_STR("of the program"));
  return WEFT_CANCELLED;
}

static void load_a_plugin(weft_runtime* runtime) {
  GUARDED(weft_loaded, loaded);
  check(weft_runtime_load(runtime, str("shard_policy"), str("gpt2"), str(""), &loaded.value, error), "load");
  WHOLE(loaded);
  printf("loaded %.*s %.*s\n", (int)loaded.value.id.size, loaded.value.id.data, (int)loaded.value.kind.size,
         loaded.value.kind.data);
}

static weft_job* boost(weft_booster* booster, weft_runtime* runtime, const char* config,
                       const weft_criterion* criterion) {
  weft_model* model = NULL;
  weft_optimizer* optimizer = NULL;
  weft_job* job = NULL;
  check(weft_model_open(runtime, str(config), str(""), &model, error), "open");
  check(weft_optimizer_create(runtime, model, str("sgd"), str("{\"lr\": 0.5}"), &optimizer, error), "sgd");
  weft_boost_arguments arguments;
  memset(&arguments, 0, sizeof(arguments));
  arguments.struct_size = sizeof(arguments);
  arguments.model = model;
  arguments.optimizer = optimizer;
#ifndef WEFT_SHORTER
  arguments.criterion = criterion;
#endif
  check(weft_booster_boost(booster, &arguments, &job, error), "boost");
  return job;
}

static void train(weft_job* job, weft_fields batch) {
  double before = 0;
  weft_pipeline_arguments pass;
  memset(&pass, 0, sizeof(pass));
  pass.struct_size = sizeof(pass);
  pass.batch = batch;
  pass.loss = &before;
  check(weft_job_execute_pipeline(job, &pass, error), "execute_pipeline");
  for (int i = 0; i < 3; ++i) {
    GUARDED(weft_step_result, step);
    check(weft_job_train_step(job, batch, &step.value, error), "train_step");
    WHOLE(step);
    printf("step %d loss %.9g auxiliary %g\n", (int)step.value.index, step.value.loss,
           step.value.auxiliary_loss);
    if (i == 0 && step.value.loss != before) printf("another loss: %.9g\n", before);
  }
}

static void generate(weft_job* job, const weft_ids* prompt) {
  int tokens = 0;
  weft_generation_arguments arguments;
  memset(&arguments, 0, sizeof(arguments));
  arguments.struct_size = sizeof(arguments);
  arguments.prompts = prompt;
  arguments.num_prompts = 1;
  arguments.options = str("{\"greedy\": true, \"max_new_tokens\": 5}");
  arguments.context = &tokens;
  arguments.token = on_token;
  check(weft_job_generate(job, &arguments, error), "generate");
  printf("%d tokens\n", tokens);
}

int main(int argc, char** argv) {
  const int64_t ids[8] = {84, 104, 101, 32, 99, 97, 116, 10};
  weft_runtime* runtime = NULL;
  weft_booster* booster = NULL;
  weft_tensor* tensor = NULL;
  weft_tensor_info info;
  if (argc != 2) return 2;
  error = weft_error_create();
  check(weft_runtime_create(str(""), &runtime, error), "runtime");
  load_a_plugin(runtime);
  check(weft_booster_create(runtime, str("{\"strategy\": \"torch_ddp\"}"), &booster, error), "booster");

  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  info.dtype = WEFT_I64;
  info.ndim = 2;
  info.shape[0] = 1;
  info.shape[1] = 8;
  info.size_bytes = sizeof(ids);
  info.data = ids;
  check(weft_tensor_create(&info, &tensor, error), "tensor");
  GUARDED(weft_tensor_info, described);
  check(weft_tensor_describe(tensor, &described.value, error), "describe");
  WHOLE(described);
  printf("%d x %d of %d bytes\n", (int)described.value.shape[0], (int)described.value.shape[1],
         (int)described.value.size_bytes);

  const weft_field fields[2] = {{str("input_ids"), tensor}, {str("labels"), tensor}};
  const weft_fields batch = {fields, 2};
  weft_job* job = boost(booster, runtime, argv[1], NULL);
  train(job, batch);
  const weft_ids prompt = {ids, 4};
  generate(job, &prompt);
#ifndef WEFT_SHORTER
  weft_criterion criterion;
  weft_step_result step;
  memset(&criterion, 0, sizeof(criterion));
  memset(&step, 0, sizeof(step));
  criterion.struct_size = sizeof(criterion);
  criterion.loss = loss;
  step.struct_size = sizeof(step);
  job = boost(booster, runtime, argv[1], &criterion);
  if (weft_job_train_step(job, batch, &step, error) != WEFT_CANCELLED)
    printf("the criterion was not asked\n");
#endif
  fflush(stdout);
  _Exit(0);
}
