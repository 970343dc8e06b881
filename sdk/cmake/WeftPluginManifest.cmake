# cmake -DBASE=... -DRECIPE=... [-DBUILD_ID=weftBuildId.cmake] -DOUTPUT=... -P: completes the author's part of plugin.json with what
# the build knows.
set(libraries "")
if(BUILD_ID)
  include(${BUILD_ID})
endif()

function(weft_library path entry)
  file(SHA256 ${path} digest)
  string(REPLACE "\"WEFT_BUILD_ID\"" "\"${WEFT_BUILD_ID}\"" entry "${entry}")
  set(line "    {${entry}, \"sha256\": \"${digest}\"}")
  if(libraries)
    string(PREPEND line ",\n")
  endif()
  set(libraries "${libraries}${line}" PARENT_SCOPE)
endfunction()

include(${RECIPE})
file(READ ${BASE} text)
string(STRIP "${text}" text)
# It is valid JSON, so its last brace closes the object; the author's order and spelling stay.
string(REGEX REPLACE "[ \n\t\r]*}$" "" text "${text}")
file(WRITE ${OUTPUT}.new
  "${text},\n  \"manifest_version\": 1,\n  \"abi\": ${abi},\n  \"libraries\": [\n${libraries}\n  ]\n}\n")
file(CHMOD ${OUTPUT}.new PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(RENAME ${OUTPUT}.new ${OUTPUT})
