// RUN: ocannl-opt %s -p "pad-rows{least=0}" | filecheck %s
// RUN: ocannl-opt %s -p pad-rows | filecheck %s --check-prefix SMALL

// Rows of whole sectors; index maps stay. What others see has the rows that it has, and so have aligned and short ones.
loops.func @f {
  %x = assign.node "x" on_device because "data" : memref<4x333xbf16>
  %h = assign.node "h" local because "intermediate value" : memref<4x333xbf16>
  %aligned = assign.node "aligned" local because "intermediate value" : memref<4x328xbf16>
  %short = assign.node "short" local because "intermediate value" : memref<333x4x33xbf16>
  %row = assign.node "row" local because "intermediate value" : memref<333xbf16>
  loops.nest "h" (b = 4, o = 333) {
    %0 = loops.load %x[b, o]
    loops.store %0, %h[b, o]
    loops.store %0, %short[o, b, 0]
  }
  loops.nest "x" (b = 4, o = 328) {
    %1 = loops.load %h[b, o]
    loops.store %1, %aligned[b, o]
    loops.store %1, %x[b, o]
  }
  loops.nest "row" (o = 333) {
    %2 = loops.load %h[0, o]
    loops.store %2, %row[o]
  }
}
// CHECK-LABEL: loops.func @f
// CHECK:         "x" on_device because "data" : memref<4x333xbf16>
// CHECK:         "h" local because "intermediate value" : memref<4x336xbf16>
// CHECK:         "aligned" local because "intermediate value" : memref<4x328xbf16>
// CHECK:         "short" local because "intermediate value" : memref<333x4x33xbf16>
// CHECK:         "row" local because "intermediate value" : memref<333xbf16>
// CHECK:         loops.nest "h" (b = 4, o = 333) {
// CHECK:           loops.store {{.*}}, %h[b, o]

// SMALL: "h" local because "intermediate value" : memref<4x333xbf16>
