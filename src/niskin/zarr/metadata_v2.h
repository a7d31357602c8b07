// Arrays of Zarr format 2 from JSON that has been parsed already. Private to the module.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "niskin/zarr/metadata.h"

namespace niskin::zarr {

// As parse_array_v2 of metadata.h. `zattrs` may be null: no attributes.
ArrayMeta parse_array_v2(const std::string& name, const nlohmann::json& zarray,
                         const nlohmann::json& zattrs);

}  // namespace niskin::zarr
