# cmake -DPROGRAM=application_c -DWEFT=weft -DFOLDER=... -DCONFIG=... -DTEXT=... -P: on one rank, which keeps its numbers in
# FOLDER, and then on two, which must get the same.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
set(command ${PROGRAM} ${FOLDER} ${CONFIG} ${TEXT})
execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WEFT} run -n 2 ${command} COMMAND_ERROR_IS_FATAL ANY)
