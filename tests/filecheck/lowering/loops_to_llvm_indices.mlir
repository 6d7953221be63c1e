// RUN: ocannl-opt %s -t llvm | filecheck %s

// Numbers of 32 bits hold the indices of the lanes where these surely have no more, as processors convert more
// of them at once, and many convert no others to floats.
// CHECK-LABEL: define {{.*}}"f.short"
// CHECK:         [[BASE:%.*]] = trunc i64 {{%.*}} to i32
// CHECK:         add <8 x i32> {{%.*}}, <i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10>
// CHECK-NEXT:    sitofp <8 x i32> {{%.*}} to <8 x float>
// CHECK-LABEL: define {{.*}}"f.long"
// CHECK:         sitofp <8 x i64> {{%.*}} to <8 x float>
// CHECK-LABEL: define {{.*}}"f.unknown"
// CHECK:         sitofp <8 x i64> {{%.*}} to <8 x float>
loops.func @f indices (step_n) {
  %x = assign.node "x" on_device : memref<64xf32>
  loops.nest "short" (i = 64) schedule <order = (i), lanes = i : 8> {
    %n = loops.index i + 3 : f32
    loops.store %n, %x[i]
  }
  loops.nest "long" (i = 64) schedule <order = (i), lanes = i : 8> {
    %n = loops.index 100000000*i : f32
    loops.store %n, %x[i]
  }
  loops.nest "unknown" (i = 64) schedule <order = (i), lanes = i : 8> {
    %n = loops.index i + step_n : f32
    loops.store %n, %x[i]
  }
}
