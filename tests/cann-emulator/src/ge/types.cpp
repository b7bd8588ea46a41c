#include "abi.hpp"

#include <cstring>

namespace ge {

AscendString::AscendString(const char* text) {
    if (text) text_ = std::make_shared<std::string>(text);
}

bool AscendString::operator<(const AscendString& other) const { return std::strcmp(GetString(), other.GetString()) < 0; }

Graph::Graph(const char* name) : impl_(std::make_shared<GraphImpl>()) {
    if (name) impl_->name = name;
}

}  // namespace ge
