// A program outside the tree, against the installed copy.
#include <corewire/reactor/base/random.hh>

#include <cstdio>

int main() {
    corewire::random_generator random(7);
    std::printf("consumer: %s\n", random.below(6) < 6 ? "ok" : "wrong");
}
