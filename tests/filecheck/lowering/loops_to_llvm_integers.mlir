// RUN: ocannl-opt %s -t llvm --cpu icelake-server | filecheck %s

// LLVM takes additions down to one lane of 16 products of bytes for one instruction, and gets the sum of some of them:
// the last two lanes are added as numbers.
loops.func @dot {
  %x = assign.node "x" on_device : memref<16xi8>
  %w = assign.node "w" on_device : memref<16xi8>
  %y = assign.node "y" on_device : memref<i32>
  loops.nest "y" () schedule <order = (), lanes = k : 16> {
    %sum = loops.reduce add (k = 16) : i32 {
      %0 = loops.load %x[k]
      %1 = arith.extui %0 : i8 to i32
      %2 = loops.load %w[k]
      %3 = arith.extsi %2 : i8 to i32
      %4 = arith.muli %1, %3 : i32
      loops.yield %4
    }
    loops.store %sum, %y[]
  }
}
// CHECK: [[PAIR:%.*]] = add <2 x i32>
// CHECK: [[LOW:%.*]] = extractelement <2 x i32> [[PAIR]], i64 0
// CHECK: [[HIGH:%.*]] = extractelement <2 x i32> [[PAIR]], i64 1
// CHECK: add i32 [[LOW]], [[HIGH]]
