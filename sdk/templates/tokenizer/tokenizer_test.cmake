# cmake -DWEFT=... -DFOLDER=... -DOUTPUT=... -P: encodes and decodes lines of text.
function(weft_tokenizer verb input output)
  file(WRITE ${OUTPUT}/input.txt "${input}")
  execute_process(COMMAND ${WEFT} tokenizer ${verb} --model ${FOLDER} ${ARGN} INPUT_FILE ${OUTPUT}/input.txt
    OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
  if(NOT found STREQUAL output)
    message(SEND_ERROR "${verb} of\n${input}gives\n${found}, must give\n${output}")
  endif()
endfunction()

weft_tokenizer(encode "Hi\né€\n" "[72,105]\n[195,169,226,130,172]\n")
weft_tokenizer(encode "Hi\n" "[72,105,256]\n" --special)
weft_tokenizer(decode "[72,256]\n" "H<end>\n" --special)
# Characters of one to four bytes; then one that is cut short, a byte that begins none, and a spelling that is too long.
weft_tokenizer(decode "[72,256]\n[195,169,226,130,172,240,159,152,128]\n[72,226,130]\n[226,130,72]\n[128,255]\n[192,128]\n"
  "H\né€😀\nH�\n�H\n��\n��\n")
