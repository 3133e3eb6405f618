// <corewire/file.hh>: files, directories, pipes, timers, signals and children, over io_uring.
#pragma once

#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/file/file_copy.hh>
#include <corewire/reactor/file/file_reader.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/file/paths.hh>
#include <corewire/reactor/file/process/child_process.hh>
#include <corewire/reactor/file/process/descriptor_timer.hh>
#include <corewire/reactor/file/process/pipe.hh>
#include <corewire/reactor/file/process/signal_stream.hh>
