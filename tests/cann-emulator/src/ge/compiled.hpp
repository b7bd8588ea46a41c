// A compiled model as it is kept in memory and in .om files: the model, and what it was compiled with and to.
#pragma once

#include <string>
#include <string_view>

namespace ge {

struct CompiledModel {
    std::string graph;           // its name
    std::string input_shape;
    std::string precision_mode;
    std::string soc;
    std::size_t weight_bytes = 0;
    std::size_t workspace_bytes = 0;
    std::string model;           // a serialized ModelProto with these input shapes

    std::string write() const;
    /// Throws std::runtime_error for anything that `write` did not write.
    static CompiledModel read(std::string_view bytes);
};

}  // namespace ge
