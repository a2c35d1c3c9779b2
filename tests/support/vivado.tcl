# Commands of Vivado as stubs: each is written to the file CALLS, and does nothing. SLACKS: of the longest
# and the shortest path; STATUS: of a run, behind its last step. Then the script SCRIPT is read.
set calls [open $env(CALLS) w]
proc unknown {args} {
  puts $::calls $args
  return [lindex $args 0]
}
proc get_property {name of} {
  switch $name {
    STATUS { return "$::step $::env(STATUS)" }
    SLACK { return [dict get $::env(SLACKS) $of] }
  }
  return $name
}
proc get_timing_paths {args} { return [dict get $args -delay_type] }
proc launch_runs {run args} {
  puts $::calls [list launch_runs $run {*}$args]
  set ::step [dict get $args -to_step]
  if {$::step ne "write_bitstream"} return
  set folder [file dirname $::env(SCRIPT)]/vivado
  foreach path {$::env(NAME).runs/impl_1/system_wrapper.bit
                $::env(NAME).gen/sources_1/bd/system/hw_handoff/system.hwh} {
    set path $folder/[subst $path]
    file mkdir [file dirname $path]
    close [open $path w]
  }
}
source $env(SCRIPT)
close $calls
