// Fuzzes the XML of S3's answers. Listings must end, paths and codes must be as s3_xml.h says, and objects must have
// keys.
#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "backup/s3/s3_xml.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzS3Answer(std::string_view input) {
  size_t num_elements = 0;
  size_t num_text_bytes = 0;
  const absl::Status status = backup::ReadXml(input, [&](std::string_view path, const std::string& text) {
    ++num_elements;
    num_text_bytes += text.size();
    Require(static_cast<size_t>(std::count(path.begin(), path.end(), '/')) < backup::kMaxXmlDepth ||
                path.find("//") != std::string_view::npos,
            "elements are not nested too deeply");
  });
  Require(num_elements <= input.size() && num_text_bytes <= input.size(), "there is no more than was sent");
  if (status.ok()) {
    Require(num_elements > 0, "a document has a root");
  } else {
    RequireRefusal(status);
  }
  const std::string code = backup::ErrorCode(input);
  Require(
      code.size() <= 64 && std::all_of(code.begin(), code.end(),
                                       [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_'; }),
      "a code is a word");
  const absl::StatusOr<backup::ObjectPage> page = backup::ReadObjectPage(input);
  if (!page.ok()) return RequireRefusal(page.status());
  for (const backup::StoredObject& object : page->objects) Require(!object.key.empty(), "an object has a key");
}

const Registration kS3AnswerTarget("s3_answer", &FuzzS3Answer);

}  // namespace
}  // namespace maxsim::fuzz
