/* What the tests in C share: expectations, and a tiny job. */
#ifndef WEFT_TESTS_APPLICATION_TEST_H
#define WEFT_TESTS_APPLICATION_TEST_H

#include <weft/booster.h>

/* Where the test runs. */
typedef struct test_place {
  const char* folder; /* for files; all ranks share it */
  const char* config; /* the config.json of a tiny model */
  const char* text;   /* a text file */
  int rank;
  int ranks;
} test_place;
extern test_place place;

/* One for all calls that are expected to succeed or to fail. */
extern weft_error* error;
extern weft_runtime* runtime;

/* EXPECT counts a failure and goes on; REQUIRE ends the program, and `weft run` the other ranks. */
#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)
#define REQUIRE(condition) require((condition) != 0, #condition, __FILE__, __LINE__)
/* The call returns WEFT_OK. */
#define OK(call) succeeds((call), #call, __FILE__, __LINE__)
/* The call returns `status`, and one clear text in `error` that holds the pieces. */
#define REFUSED(status, call, ...) \
  refused((status), (call), #call, __FILE__, __LINE__, (const char*[]){__VA_ARGS__, NULL})
/* |actual - expected| is at most `tolerance` of |expected|. */
#define EXPECT_NEAR(actual, expected, tolerance) \
  expect_near((actual), (expected), (tolerance), #actual, __FILE__, __LINE__)

void expect(int holds, const char* text, const char* file, int line);
void require(int holds, const char* text, const char* file, int line);
void succeeds(weft_status status, const char* call, const char* file, int line);
void refused(weft_status expected, weft_status status, const char* call, const char* file, int line,
             const char* const* pieces);
void expect_near(double actual, double expected, double tolerance, const char* text, const char* file,
                 int line);
int num_failures(void);

/* The test runs on one rank first, which keeps the value under this name. More ranks must get the same one,
 * up to the order of sums. Rank 0 speaks for all. */
void same_on_one_rank(const char* name, double value);

weft_str str(const char* text);
/* The path of a file in place.folder; valid until the eighth call after it. */
const char* in_folder(const char* name);
void write_file(const char* path, const char* text);

/* Calls of functions that take structs, with an argument for each member. */
weft_fields fields_of(const weft_field* fields, uint64_t count);
weft_status create_tensor(uint32_t dtype, const int64_t* shape, uint32_t ndim, const void* data,
                          uint64_t size_bytes, weft_tensor** own);
weft_status boost(weft_booster* booster, weft_model* model, const weft_criterion* criterion, weft_job** own);
weft_status execute_pipeline(weft_job* job, weft_fields batch, uint32_t backward, double* loss,
                             const char* output, weft_tensor** own);

/* This rank's part of a batch of 8 sequences of 16 tokens, drawn from `seed`. */
typedef struct test_batch {
  int64_t rows, positions;
  const int64_t* ids; /* what the tensor of ids holds */
  weft_tensor* tensors[2];
  weft_field fields[2]; /* input_ids, labels */
} test_batch;
/* All labels count, or only some, and not as many on every rank. */
enum { ALL_LABELS, SOME_LABELS };
test_batch make_batch(int seed, int labels);
/* Some of its rows. */
test_batch make_rows(int seed, int64_t begin, int64_t end);
void destroy_batch(test_batch* batch);

/* A job and what it was made of, in fp64. NULL: nothing of that, or the default. */
typedef struct test_options {
  const char* architecture;
  const char* strategy; /* NULL: none on one rank, torch_ddp on more */
  const char* booster;  /* more members of the booster's options: ", \"accumulate\": 2" */
  const char* optimizer;
  const char* hyper;
  const char* schedule;
  const char* schedule_options;
  const char* data_options;
  const weft_criterion* criterion;
} test_options;
typedef struct test_job {
  weft_booster* booster;
  weft_model* model;
  weft_optimizer* optimizer;
  weft_scheduler* scheduler;
  weft_data* data;
  weft_job* job;
} test_job;
test_job make_job(const test_options* options);
weft_booster* make_booster(const char* strategy, const char* more);
void destroy_job(test_job* job);
/* Trains on the batch of this seed; the loss. */
double train_on(test_job* job, int seed);
double loss_of(test_job* job, int seed);

/* The tests; main.c calls them in this order. */
void test_runtime(void);
void test_objects(void);
void test_data(void);
void test_training(void);
void test_criterion(void);
void test_trainer(void);
void test_generation(void);
void test_checkpoints(void);

#endif
