int weft_test_nothing(void);
int weft_test_nothing(void) {
  return 0;
}
