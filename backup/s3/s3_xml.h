// Reads and writes the XML of S3's answers and requests.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backup/store/object_store.h"

namespace maxsim::backup {

// Called at the end of each element. `path` has the names from the root to the element without their namespace
// prefixes, such as "ListBucketResult/Contents/Key". `text` is the element's own text, without that of its child
// elements.
using XmlVisitor = absl::FunctionRef<void(std::string_view path, const std::string& text)>;

inline constexpr size_t kMaxXmlDepth = 16;
// Reads an XML document in time linear in its size. Ignores attributes, comments and processing instructions. Returns
// DATA_LOSS for text that is not well-formed, for more than kMaxXmlDepth nested elements, and for what S3 does not use:
// document types, CDATA, and entities other than XML's five and character numbers. `visit` has then been called for the
// elements before the error.
absl::Status ReadXml(std::string_view text, XmlVisitor visit);

// Returns the code of an S3 error, such as "NoSuchKey", or "" if the text is not an S3 error. A code has at most 64
// letters, digits, dots and underscores. The rest of an error is not returned, because it may repeat parts of the
// request, including its signature.
std::string ErrorCode(std::string_view text);

struct ObjectPage {
  std::vector<StoredObject> objects;
  std::string next;  // the token for the next page; "" if this is the last one
};

// Reads the answer to ListObjectsV2. Returns DATA_LOSS if the text is not such an answer, or if it announces another
// page without the token for it.
absl::StatusOr<ObjectPage> ReadObjectPage(std::string_view text);

// Returns the upload's id from the answer to CreateMultipartUpload, or DATA_LOSS if the answer has none.
absl::StatusOr<std::string> ReadUploadId(std::string_view text);

// Returns the body of the request CompleteMultipartUpload. `etags` are those of the parts 1, 2 and so on.
std::string CompleteUploadXml(const std::vector<std::string>& etags);

}  // namespace maxsim::backup
