// Reads and writes the XML of S3's answers and requests.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/backup/store/object_store.h"

namespace maxsim::backup {

// Called at the end of each element: with the names from the root to the element, such as
// "ListBucketResult/Contents/Key" (without prefixes of namespaces), and the text that stands directly in the element.
using XmlVisitor = absl::FunctionRef<void(std::string_view path, const std::string& text)>;

// Reads an XML document in time linear in its size. Ignores attributes, comments and processing instructions. Returns
// DATA_LOSS for text that is not well-formed, for more than kMaxXmlDepth nested elements, and for what S3 does not use:
// document types, CDATA, entities other than the five of XML and characters by number.
inline constexpr size_t kMaxXmlDepth = 16;
absl::Status ReadXml(std::string_view text, XmlVisitor visit);

// Returns the code of an error, such as "NoSuchKey", or "" if the text is no error of S3. A code has only letters,
// digits, dots and underscores. Nothing else of an error is returned, because it may repeat parts of the request, also
// its signature.
std::string ErrorCode(std::string_view text);

struct ObjectPage {
  std::vector<StoredObject> objects;
  std::string next;  // the token for the next page; "" if this is the last one
};

// Reads the answer to ListObjectsV2. DATA_LOSS if it is none, or says that there are more pages and not where.
absl::StatusOr<ObjectPage> ReadObjectPage(std::string_view text);

// Reads the answer to CreateMultipartUpload: the upload's id.
absl::StatusOr<std::string> ReadUploadId(std::string_view text);

// Returns the body of CompleteMultipartUpload. The parts have the numbers 1, 2 and so on.
std::string CompleteUploadXml(const std::vector<std::string>& etags);

}  // namespace maxsim::backup
