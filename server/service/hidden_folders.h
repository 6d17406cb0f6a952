// Hides the folders of the server's machine from clients, because folder names reveal how the machine is set up, even
// outside store.allowed_roots. Only administrators, the log and traces see full paths.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the text with every absolute path cut to its last component: "/srv/my docs/log.1: cut off" becomes "log.1:
// cut off". Because a folder's name may have any character, a path is taken to reach to the last slash of the text, or
// to a " /" that begins another path. Words of the message that lie between two slashes are therefore cut too. Paths of
// the HTTP API are kept.
std::string WithoutFolders(std::string_view text);

// Returns an error as a client may see it: its folders are cut (WithoutFolders), and its details stay. An error about
// the client's own request keeps what looks like a path, because that is the client's own id or URL. In such an error
// only the path of a file that the server did not find is cut, unless the request itself gave that path in its field
// "path".
absl::Status ForClient(const absl::Status& status);

// Removes folders from the texts of a CollectionInfo.
void HideFolders(v1::CollectionInfo& info);

}  // namespace maxsim::service
