/* Making objects: what is refused, tensors, and the order of destruction. */
#include <stdio.h>
#include <string.h>

#include "test.h"

/* No function below may write to an output when it fails. */
static int object;
#define UNTOUCHED(type) ((type*)(void*)&object)

static void tensors_are_copies(void) {
  float values[6] = {0, 1, 2, 3, 4, 5};
  const int64_t shape[2] = {2, 3};
  weft_tensor* tensor = NULL;
  weft_tensor_info info = {.struct_size = sizeof(info)};
  OK(create_tensor(WEFT_F32, shape, 2, values, sizeof(values), &tensor));
  values[5] = 7;
  OK(weft_tensor_describe(tensor, &info, error));
  EXPECT(info.dtype == WEFT_F32 && info.ndim == 2 && info.shape[0] == 2 && info.shape[1] == 3);
  EXPECT(info.size_bytes == sizeof(values));
  EXPECT(((const float*)info.data)[5] == 5);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tensor_describe(NULL, &info, error),
          "weft_tensor_describe: tensor is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tensor_describe(tensor, NULL, error),
          "weft_tensor_describe: out is null");
  info.struct_size = 8;
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tensor_describe(tensor, &info, error), "struct_size is 8");
  weft_tensor_destroy(tensor);

  const double one = 1;
  OK(create_tensor(WEFT_F64, NULL, 0, &one, sizeof(one), &tensor)); /* of no dimension */
  weft_tensor_destroy(tensor);
  const int64_t none[1] = {0};
  OK(create_tensor(WEFT_I64, none, 1, NULL, 0, &tensor));
  weft_tensor_destroy(tensor);
  weft_tensor_destroy(NULL);
}

static void tensors_refuse_wrong_shapes(void) {
  const float values[6] = {0};
  const int64_t shape[2] = {2, 3}, negative[2] = {2, -3}, huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
  weft_tensor* tensor = UNTOUCHED(weft_tensor);
  REFUSED(WEFT_UNIMPLEMENTED, create_tensor(99, shape, 2, values, 24, &tensor), "99");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, shape, 2, values, 20, &tensor),
          "weft_tensor_create: 20 bytes given", "24");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, negative, 2, values, 24, &tensor),
          "dimension 1 is -3");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, huge, 2, values, 24, &tensor),
          "weft_tensor_create: 24 bytes given");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, shape, 9, values, 24, &tensor), "9 dimensions",
          "at most 8");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_tensor_create(NULL, &tensor, error), "info is null");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, shape, 2, NULL, 24, &tensor), "data is null");
  REFUSED(WEFT_INVALID_ARGUMENT, create_tensor(WEFT_F32, shape, 2, values, 24, NULL), "own is null");
  EXPECT(tensor == UNTOUCHED(weft_tensor));
}

static void models_refuse(void) {
  weft_model* model = UNTOUCHED(weft_model);
  const weft_str config = str(place.config);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_open(NULL, config, str(""), &model, error),
          "weft_model_open: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_open(runtime, config, str(""), NULL, error),
          "weft_model_open: own is null");
  REFUSED(WEFT_NOT_FOUND, weft_model_open(runtime, str(in_folder("none")), str(""), &model, error), "none");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_model_open(runtime, config, str("{\"precison\": \"fp64\"}"), &model, error), "precison",
          "did you mean \"precision\"?");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_model_open(runtime, config, str("{\"precision\": \"fp8\"}"), &model, error), "fp8");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_open(runtime, config, str("{\"precision\": 64}"), &model, error),
          "precision");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_open(runtime, config, str("fp64"), &model, error),
          "weft_model_open");
  REFUSED(WEFT_NOT_FOUND,
          weft_model_open(runtime, config, str("{\"architecture\": \"GPT2LMHead\"}"), &model, error),
          "GPT2LMHead");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_open(runtime, (weft_str){NULL, 3}, str(""), &model, error),
          "weft_model_open", "3 bytes", "no data");
  EXPECT(model == UNTOUCHED(weft_model));
}

static void optimizers_and_schedules_refuse(weft_model* model) {
  weft_optimizer *optimizer = UNTOUCHED(weft_optimizer), *made = NULL;
  weft_scheduler* scheduler = UNTOUCHED(weft_scheduler);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_optimizer_create(NULL, model, str("sgd"), str(""), &optimizer, error),
          "weft_optimizer_create: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_optimizer_create(runtime, NULL, str("sgd"), str(""), &optimizer, error),
          "weft_optimizer_create: model is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_optimizer_create(runtime, model, str("sgd"), str(""), NULL, error),
          "weft_optimizer_create: own is null");
  REFUSED(WEFT_NOT_FOUND, weft_optimizer_create(runtime, model, str("adamm"), str(""), &optimizer, error),
          "adamm", "adamw");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_optimizer_create(runtime, model, str("adamw"), str("{\"weight_decy\": 1}"), &optimizer, error),
          "weight_decy", "did you mean \"weight_decay\"?");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_optimizer_create(runtime, model, str("adamw"), str("{\"lr\": \"fast\"}"), &optimizer, error),
          "lr", "must be a number");
  REFUSED(WEFT_NOT_FOUND,
          weft_optimizer_create(runtime, model, str("sgd"),
                                str("{\"groups\": [{\"parameters\": [\"*biases\"]}]}"), &optimizer, error),
          "*biases");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_optimizer_create(runtime, model, str("sgd"), str("{\"groups\": [{\"parameters\": \"*\"}]}"),
                                &optimizer, error),
          "groups", "parameters");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_optimizer_create(runtime, model, str("adamw"), str("{\"lr\": -1}"), &optimizer, error),
          "lr is -1");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_optimizer_create(runtime, model, str("adamw"), str("[1]"), &optimizer, error),
          "weft_optimizer_create", "object");
  EXPECT(optimizer == UNTOUCHED(weft_optimizer));

  OK(weft_optimizer_create(runtime, model, str("sgd"), str("{\"lr\": 0.1}"), &made, error));
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_scheduler_create(NULL, made, str("constant"), str(""), &scheduler, error),
          "weft_scheduler_create: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_scheduler_create(runtime, NULL, str("constant"), str(""), &scheduler, error),
          "weft_scheduler_create: optimizer is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_scheduler_create(runtime, made, str("constant"), str(""), NULL, error),
          "weft_scheduler_create: own is null");
  REFUSED(WEFT_NOT_FOUND, weft_scheduler_create(runtime, made, str("cosine"), str(""), &scheduler, error),
          "cosine");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_scheduler_create(runtime, made, str("step"), str("{\"gama\": 0.5}"), &scheduler, error),
          "gama", "did you mean \"gamma\"?");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_scheduler_create(runtime, made, str("step"), str("7"), &scheduler, error), "object");
  EXPECT(scheduler == UNTOUCHED(weft_scheduler));
  weft_optimizer_destroy(made);
}

static void data_refuses(weft_model* model) {
  weft_data* data = UNTOUCHED(weft_data);
  const weft_str text = str(place.text);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(NULL, model, text, str(""), &data, error),
          "weft_data_open: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, NULL, text, str(""), &data, error),
          "weft_data_open: model is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, model, text, str(""), NULL, error),
          "weft_data_open: own is null");
  REFUSED(WEFT_NOT_FOUND, weft_data_open(runtime, model, str(in_folder("none.txt")), str(""), &data, error),
          "none.txt");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"batch_sise\": 8}"), &data, error), "batch_sise",
          "did you mean \"batch_size\"?");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"batch_size\": 0}"), &data, error), "batch_size", "0");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_data_open(runtime, model, text, str("{\"shuffle\": 2}"), &data, error),
          "shuffle");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"sequence_length\": 999}"), &data, error),
          "sequence_length is 999", "32");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"token_type\": \"u8\"}"), &data, error), "token_type",
          "u8", "uint32");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"objective\": \"masked_lm\", \"mask_token_id\": 3}"),
                         &data, error),
          "GPT2LMHeadModel cannot be trained by objective masked_lm", "causal_lm");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"mask_token_id\": 3}"), &data, error),
          "mask_token_id is for the objective masked_lm", "causal_lm");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"special_ids\": []}"), &data, error),
          "special_ids is for the objective masked_lm", "causal_lm");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_data_open(runtime, model, text, str("{\"special_ids\": [1, 2.5]}"), &data, error),
          "special_ids", "[1,2.5]", "array of ids");
  EXPECT(data == UNTOUCHED(weft_data));
}

static void adapters_refuse(weft_model* model) {
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_adapt(NULL, str("{}"), error), "weft_model_adapt: model is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_model_adapt(model, str("{\"on\": \"wte\"}"), error), "operation");
}

static void boosters_refuse(weft_model* model) {
  weft_booster *booster = UNTOUCHED(weft_booster), *made = NULL;
  weft_job* job = UNTOUCHED(weft_job);
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_create(NULL, str(""), &booster, error),
          "weft_booster_create: runtime is null");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_create(runtime, str(""), NULL, error),
          "weft_booster_create: own is null");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_create(runtime, str("{\"stratgey\": \"none\"}"), &booster, error), "stratgey",
          "did you mean \"strategy\"?");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_create(runtime, str("{\"accumulate\": 0}"), &booster, error),
          "accumulate");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_create(runtime, str("{\"max_grad_norm\": -1}"), &booster, error), "max_grad_norm");
  REFUSED(WEFT_INVALID_ARGUMENT,
          weft_booster_create(runtime, str("{\"precision\": \"fp8\"}"), &booster, error), "fp8");
  REFUSED(WEFT_INVALID_ARGUMENT, weft_booster_create(runtime, str("\"torch_ddp\""), &booster, error),
          "booster");
  EXPECT(booster == UNTOUCHED(weft_booster));

  REFUSED(WEFT_INVALID_ARGUMENT, boost(NULL, model, NULL, &job), "weft_booster_boost: booster is null");
  made = make_booster(NULL, NULL);
  REFUSED(WEFT_INVALID_ARGUMENT, boost(made, NULL, NULL, &job), "weft_booster_boost: model is null");
  REFUSED(WEFT_INVALID_ARGUMENT, boost(made, model, NULL, NULL), "weft_booster_boost: own is null");
  const weft_criterion empty = {.struct_size = sizeof(empty)};
  REFUSED(WEFT_INVALID_ARGUMENT, boost(made, model, &empty, &job), "weft_booster_boost", "criterion", "loss");
  /* The model was opened in fp32, the booster is for fp64. */
  REFUSED(WEFT_INVALID_ARGUMENT, boost(made, model, NULL, &job), "fp32", "fp64");
  weft_booster_destroy(made);
  weft_model* fp64 = NULL;
  OK(weft_model_open(runtime, str(place.config), str("{\"precision\": \"fp64\"}"), &fp64, error));
  made = make_booster("torch_dpp", NULL);
  REFUSED(WEFT_NOT_FOUND, boost(made, fp64, NULL, &job), "torch_dpp", "torch_ddp");
  weft_booster_destroy(made);
  made = make_booster("torch_ddp", ", \"options\": {\"bucket_cap\": 1}");
  REFUSED(WEFT_INVALID_ARGUMENT, boost(made, fp64, NULL, &job), "bucket_cap", "bucket_cap_mb");
  weft_booster_destroy(made);
  weft_model_destroy(fp64);
  EXPECT(job == UNTOUCHED(weft_job));
}

static void a_model_is_boosted_once(void) {
  const test_options options = {.optimizer = "sgd", .hyper = "{\"lr\": 0.1}"};
  test_job first = make_job(&options);
  weft_job* second = NULL;
  REFUSED(WEFT_FAILED_PRECONDITION, boost(first.booster, first.model, NULL, &second), "boosted already");
  destroy_job(&first);
}

static void objects_go_in_any_order(void) {
  const test_options options = {.optimizer = "adamw",
                                .hyper = "{\"lr\": 0.01}",
                                .schedule = "constant",
                                .schedule_options = "",
                                .data_options = "{\"sequence_length\": 16}"};
  test_job made = make_job(&options);
  weft_step_result step = {.struct_size = sizeof(step)};
  weft_model_destroy(made.model);
  weft_data_destroy(made.data);
  weft_booster_destroy(made.booster);
  weft_optimizer_destroy(made.optimizer);
  weft_scheduler_destroy(made.scheduler);
  OK(weft_job_next(made.job, &step, error)); /* a job keeps what it needs */
  EXPECT(step.index == 1);
  weft_job_destroy(made.job);

  weft_model_destroy(NULL);
  weft_optimizer_destroy(NULL);
  weft_scheduler_destroy(NULL);
  weft_data_destroy(NULL);
  weft_booster_destroy(NULL);
  weft_job_destroy(NULL);
}

static void a_booster_tells_its_place(void) {
  test_job job = make_job(&(test_options){0});
  weft_place found = {.struct_size = sizeof(found)};
  OK(weft_booster_place(job.booster, &found, error));
  EXPECT((int)found.rank == place.rank && (int)found.world_size == place.ranks);
  EXPECT(found.data_rank == found.rank && found.data_size == found.world_size);
  OK(weft_booster_finish_saving(job.booster, error));
  weft_metric metric = {.struct_size = sizeof(metric)};
  loss_of(&job, 1);
  REFUSED(WEFT_OUT_OF_RANGE, weft_job_metric(job.job, 9, &metric, error), "9");
  destroy_job(&job);
}

void test_objects(void) {
  weft_model* model = NULL;
  tensors_are_copies();
  tensors_refuse_wrong_shapes();
  models_refuse();
  OK(weft_model_open(runtime, str(place.config), str(""), &model, error));
  optimizers_and_schedules_refuse(model);
  data_refuses(model);
  adapters_refuse(model);
  boosters_refuse(model);
  weft_model_destroy(model);
  a_model_is_boosted_once();
  objects_go_in_any_order();
  a_booster_tells_its_place();
}
