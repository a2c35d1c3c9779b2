# @NAME@ on the @BOARD@: a block design with the processor, the machine and its memory, to a bitstream.
#
#   vivado -mode batch -source build.tcl
#
# Machine: registers at @REGISTERS@ (4 KiB), memory over @PS_SLAVE@, interrupt @SPI@ of the processor, clock of
# @CLOCK_MHZ@ MHz. A design that is too slow for the clock stops here, with the figure and without a bitstream.
set here [file dirname [file normalize [info script]]]
create_project -force @NAME@ $here/vivado -part @PART@
set boards [get_board_parts -quiet -latest_file_version @BOARD_PART@]
if {[llength $boards]} {
  set_property board_part [lindex $boards 0] [current_project]
}
foreach source {
@SOURCES@
} {
  add_files -norecurse [file join $here $source]
}
set_property verilog_define {SYNTHESIS=1} [current_fileset]
update_compile_order -fileset sources_1

# The newest version of an IP that this Vivado has.
proc newest {name} {
  return [lindex [lsort -dictionary [get_ipdefs -all -filter "NAME == $name"]] end]
}

create_bd_design system
set ps [create_bd_cell -type ip -vlnv [newest @PS_IP@] ps]
if {[llength $boards]} {
  apply_bd_automation -rule xilinx.com:bd_rule:@PS_IP@ -config {@PS_PRESET@} $ps
}
set_property -dict {
@PS_PROPERTIES@
} $ps
create_bd_cell -type module -reference @TOP@ machine
create_bd_cell -type ip -vlnv [newest proc_sys_reset] reset
create_bd_cell -type ip -vlnv [newest smartconnect] control
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1} [get_bd_cells control]
create_bd_cell -type ip -vlnv [newest smartconnect] memory
set_property -dict {CONFIG.NUM_SI @PORTS@ CONFIG.NUM_MI 1} [get_bd_cells memory]

# Clock and reset of everything. The reset comes from another clock; proc_sys_reset has the
# constraints of its synchroniser.
connect_bd_net [get_bd_pins ps/@PS_CLOCK@] \
  [get_bd_pins machine/aclk] \
  [get_bd_pins reset/slowest_sync_clk] \
  [get_bd_pins control/aclk] \
  [get_bd_pins memory/aclk] \
@PS_BUS_CLOCKS@
connect_bd_net [get_bd_pins ps/@PS_RESET@] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_aresetn] \
  [get_bd_pins machine/aresetn] \
  [get_bd_pins control/aresetn] \
  [get_bd_pins memory/aresetn]

# Registers, memory, interrupt.
connect_bd_intf_net [get_bd_intf_pins ps/@PS_MASTER@] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins machine/s_axil]
@MEMORY_NETS@
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins ps/@PS_SLAVE@]
connect_bd_net [get_bd_pins machine/irq] [get_bd_pins ps/@PS_IRQ@]

assign_bd_address -offset @REGISTERS@ -range @REGISTERS_RANGE@ \
  -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs machine/s_axil/reg0]
assign_bd_address
validate_bd_design
save_bd_design
set wrapper [make_wrapper -files [get_files system.bd] -top]
add_files -norecurse $wrapper
set_property top system_wrapper [current_fileset]

# Runs the implementation up to a step. Its status then is, for instance, "route_design Complete!", or
# "route_design Complete, Failed Timing!".
proc implement {step} {
  launch_runs impl_1 -to_step $step -jobs 4
  wait_on_run impl_1
  set status [get_property STATUS [get_runs impl_1]]
  if {![string match "$step Complete*" $status]} {
    error "$step failed: $status; see impl_1/runme.log under vivado"
  }
}

# The slack in ns of the longest path (max) or of the shortest one (min); an error if there is none.
proc slack {delay} {
  set path [lindex [get_timing_paths -delay_type $delay -max_paths 1] 0]
  set found [expr {$path eq "" ? "" : [get_property SLACK $path]}]
  if {![string is double -strict $found]} {
    error "no path of delay type $delay has a clock: the clock of the processor is missing"
  }
  return $found
}

implement route_design
open_run impl_1
report_utilization -file $here/utilisation.txt
report_timing_summary -file $here/timing.txt
set setup [slack max]
set hold [slack min]
puts "slack: setup $setup ns, hold $hold ns at @CLOCK_MHZ@ MHz"
if {$setup < 0} {
  set reached [format %.1f [expr {1000.0 / (@PERIOD_NS@ - $setup)}]]
  error "setup slack $setup ns: @CLOCK_MHZ@ MHz are asked for, $reached MHz are reached, so there is no\
    bitstream; ask for less with: diastole board @BOARD@ ... --clock MHZ; the paths are in timing.txt"
}
if {$hold < 0} {
  error "hold slack $hold ns, so there is no bitstream; the paths are in timing.txt"
}

# For Vivado and JTAG .bit; for Vitis .xsa; for PYNQ .bit and .hwh; for Linux .bit.bin.
implement write_bitstream
file copy -force [lindex [glob $here/vivado/@NAME@.runs/impl_1/*.bit] 0] $here/@NAME@.bit
set handoff sources_1/bd/system/hw_handoff/system.hwh
set found [glob -nocomplain $here/vivado/@NAME@.gen/$handoff $here/vivado/@NAME@.srcs/$handoff]
file copy -force [lindex $found 0] $here/@NAME@.hwh
write_hw_platform -fixed -include_bit -force $here/@NAME@.xsa
cd $here
if {[auto_execok bootgen] eq ""} {
  error "@NAME@.bit.bin is missing, since bootgen (of Vivado or Vitis) is not on the path; write it with:\
    bootgen -image @NAME@.bif -arch @BOOTGEN_ARCH@ -process_bitstream bin -w"
}
exec bootgen -image @NAME@.bif -arch @BOOTGEN_ARCH@ -process_bitstream bin -w >@ stdout 2>@ stderr
if {![file exists @NAME@.bit.bin]} {
  error "bootgen wrote no @NAME@.bit.bin"
}
puts "wrote @NAME@.bit, @NAME@.bit.bin, @NAME@.hwh and @NAME@.xsa"
