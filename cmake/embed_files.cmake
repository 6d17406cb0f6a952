# Writes a C++ source that contains the bytes of files, so that a program has them without reading files.
#
#   cmake -D OUTPUT=FILE -D NAMESPACE=a::b -D HEADER=FILE.h -D FILES="PATH;PATH" -P embed_files.cmake
#
# The source includes HEADER, which declares `struct EmbeddedFile { std::string_view name, bytes; }` and
# `absl::Span<const EmbeddedFile> EmbeddedFiles()` in NAMESPACE. The source defines that function. A file's name is
# the last part of its path.
set(arrays "")
set(table "")
set(number 0)
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" hex HEX)
  file(SIZE "${path}" size)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  # Appends a zero to the bytes, because an array must not be empty.
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}0x00};\n")
  string(APPEND table "    {\"${name}\", {reinterpret_cast<const char*>(kFile${number}), ${size}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
set(text "// cmake/embed_files.cmake wrote this file.
#include \"${HEADER}\"

#include <array>

namespace ${NAMESPACE} {
namespace {

${arrays}
}  // namespace

absl::Span<const EmbeddedFile> EmbeddedFiles() {
  static const std::array<EmbeddedFile, ${number}> files = {{
${table}  }};
  return files;
}

}  // namespace ${NAMESPACE}
")
file(WRITE "${OUTPUT}" "${text}")
