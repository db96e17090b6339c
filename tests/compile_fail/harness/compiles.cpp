// expect: the cat
int main() {}
