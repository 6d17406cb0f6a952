// Hides the folders of the server's machine from clients, because folder names reveal how the machine is set up. Only
// administrators, the log and traces see full paths.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the text with every absolute path cut to its last component: "/srv/my docs/log.1: cut off" becomes "log.1:
// cut off". A folder's name may have any character, so a path is taken to reach to the last slash of the text, or to a
// " /" that begins another path. Words between two slashes are therefore removed, too. Paths of the HTTP API are not
// cut.
std::string WithoutFolders(std::string_view text);

// Returns an error as a client may see it: without folders (WithoutFolders), but with all details. An error about the
// client's own request keeps most paths, because they may be the client's own ids or URLs. Only the path of a file that
// the server did not find is cut in it, unless the client sent this path in the field "path".
absl::Status ForClient(const absl::Status& status);

// Removes folders from the texts of a CollectionInfo.
void HideFolders(v1::CollectionInfo& info);

}  // namespace maxsim::service
